// The attributes in which a graph that came from TensorFlow keeps what it has no words for; and the
// ones that mark what we added to a GraphDef.
#pragma once

#include <string_view>

namespace ebb {

// The operator behind a declaration or one of our own nodes, where it is not the usual one.
inline constexpr std::string_view kTensorFlowOp = "tf.op";
// The node's number in the file, where lines stand in another order.
inline constexpr std::string_view kFilePosition = "tf.at";
// The NodeDef as it stood, where protobuf would write it differently.
inline constexpr std::string_view kNodeBytes = "tf.node";
// Fields of the NodeDef behind its attributes.
inline constexpr std::string_view kNodeRest = "tf.rest";
// Fields of the GraphDef that stood before the node.
inline constexpr std::string_view kBytesBefore = "tf.before";
// On a NextIteration: the "merge:1" that it feeds one round later.
inline constexpr std::string_view kFeeds = "tf.feeds";
// The device of one of our own nodes, which stands for another one in the graph.
inline constexpr std::string_view kRealDevice = "tf.device";

// The node that holds the fields of the GraphDef behind the last node. No node of TensorFlow's can
// have a name with a blank in it.
inline constexpr std::string_view kFileNode = "graph def";
inline constexpr std::string_view kFileOp = "tf::GraphDef";
inline constexpr std::string_view kFileRest = "rest";

// In a GraphDef: what a node of ours is, whose clone it is, and for which accelerator it works.
inline constexpr std::string_view kMark = "_ebb";
inline constexpr std::string_view kMarkOf = "_ebb_of";
inline constexpr std::string_view kMarkDevice = "_ebb_device";

inline constexpr std::string_view kOpPrefix = "tf::";

}  // namespace ebb

// The attributes in which a graph that came from TensorFlow keeps what it has no words for; and the
// ones that mark what we added to a GraphDef.
#pragma once

#include <string_view>

namespace ebb {

// The operator behind a declaration, where it is not the usual one.
inline constexpr std::string_view kTensorFlowOp = "tf.op";
// The node's number in the file, where lines stand in another order.
inline constexpr std::string_view kFilePosition = "note.position";
// The NodeDef as it stood, where protobuf would write it differently.
inline constexpr std::string_view kNodeBytes = "note.node";
// What announces the node in the GraphDef, where protobuf would write less.
inline constexpr std::string_view kNodeFrame = "note.frame";
// Fields of the NodeDef behind its attributes.
inline constexpr std::string_view kNodeRest = "tf.rest";
// Fields of the GraphDef that stood before the node.
inline constexpr std::string_view kBytesBefore = "note.before";
// On a NextIteration: the "merge:1" that it feeds one round later.
inline constexpr std::string_view kFeeds = "tf.feeds";

// The node that holds the fields of the GraphDef behind the last node. TensorFlow's own operators
// have another prefix.
inline constexpr std::string_view kFileNode = "graph def";
inline constexpr std::string_view kFileOp = "file::rest";
inline constexpr std::string_view kFileRest = "rest";

// In a GraphDef: what a node of ours is, whose clone it is, and for which accelerator it works.
inline constexpr std::string_view kMark = "_ebb";
inline constexpr std::string_view kMarkOf = "_ebb_of";
inline constexpr std::string_view kMarkDevice = "_ebb_device";

// What keeps TensorFlow's own passes from removing or merging a node.
inline constexpr std::string_view kDoNotRemove = "_grappler_do_not_remove";

// TensorFlow's kernels that copy between a GPU and the host.
inline constexpr std::string_view kCopyOutOp = "_CopyFromGpuToHost";
inline constexpr std::string_view kCopyInOp = "_CopyFromHostToGpu";

inline constexpr std::string_view kOpPrefix = "tf::";

// Whether an attribute's name is one that we use in graphs, so that a file's own cannot have it.
constexpr bool is_reserved(std::string_view key) {
  return key.starts_with("tf.") || key.starts_with("note.") || key.starts_with("ebb.");
}

}  // namespace ebb

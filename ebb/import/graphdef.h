// TensorFlow's GraphDef as a graph: the binary protobuf, read without TensorFlow.
//
//   Result<Graph> graph = import_graphdef(bytes);
//
// Nodes keep their names; an operator `MatMul` is `tf::MatMul`. Placeholders and arguments are
// inputs, variables and arguments that are handles are params, constants consts. References
// (`VariableV2`) and resources are handles; what works on them has an effect. Operators that hand
// on the bytes they get (`Identity`, `Reshape`, ...) make views. Loops are frames, the sides of
// conditionals branches; a loop's back edge is an attribute (docs/decisions, 12). Lines stand in
// the file's order where that runs, otherwise in the nearest one that does.
//
// What the graph has no words for is kept in attributes `tf.*` and `note.*`, so that
// export_graphdef (ebb/export/graphdef.h) gives back the same bytes, also by way of the text form:
// whatever the order of fields, unknown ones, and lengths that take more bytes than they need.
// (Groups, which protobuf has given up, are foreign bytes.) Where a field or an attribute stands
// twice, the last one counts.
//
// Errors (kBadInput) name the node: foreign bytes, inputs that do not exist, cycles, two nodes of
// one name, loops that are wrongly closed.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ebb/base/result.h"
#include "ebb/graph/graph.h"

namespace ebb {

// Which devices are accelerators, and where swapped tensors wait. `*` stands for any number.
struct TensorFlowDevices {
  std::string accelerator = "/device:GPU:*";
  std::string host = "/device:CPU:0";
};

struct GraphDefOptions {
  TensorFlowDevices devices;
  // Asked for the shape of an output that the file says nothing of (its dims and `ranked`).
  std::function<std::optional<TensorType>(std::string_view node, int output)> shape_of;
  // Asked for an operator that is not TensorFlow's own: its OpDef, serialized.
  std::function<std::optional<std::string>(std::string_view op)> op_def;
  // Whether who runs the graph puts tensors of his in the place of what a node makes: then it is no
  // view of what it reads, and is not computed again. PlaceholderWithDefault is not asked about.
  std::function<bool(std::string_view node)> is_fed;
};

// The graph, which the verifier accepts.
[[nodiscard]] Result<Graph> import_graphdef(std::string_view bytes,
                                            const GraphDefOptions& options = {});

}  // namespace ebb

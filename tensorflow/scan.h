// A quick look at a GraphDef: whether there is anything for Ebb in it, before anything that costs.
//
// One pass over the nodes that reads names, devices and the keys of attributes, and skips values.
// Bytes that are no GraphDef throw what protozero throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "configuration.h"

namespace ebb::grappler {

struct Scan {
  std::size_t nodes = 0;
  std::size_t backward_nodes = 0;     // under the optimizer's scopes, or in gradients'
  std::size_t accelerator_nodes = 0;  // on a device that is to be relieved
  bool was_rewritten = false;         // some node carries our attribute
  // Of the function that most of the backward phase was inlined from, as TensorFlow names it
  // ('__inference_step_12'); empty when the graph does not say, as of a function that the user
  // calls himself.
  std::string function;
  // The same for both times that Grappler shows a graph: its arguments and results by name.
  std::uint64_t signature = 0;
  // One that XLA compiles as a whole; empty when there is none. Grappler does not show its body.
  std::string opaque_function;
};
Scan scan_graphdef(std::string_view graphdef, const Configuration& configuration);

}  // namespace ebb::grappler

// A quick look at a GraphDef: whether there is anything for Ebb in it, before anything that costs.
//
// One pass over the nodes that reads names, devices and the keys of attributes, and skips values.
// Bytes that are no GraphDef throw what protozero throws.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "configuration.h"

namespace ebb::grappler {

struct Scan {
  std::size_t nodes = 0;
  std::size_t backward_nodes = 0;     // under the optimizer's scopes, or in gradients'
  std::size_t accelerator_nodes = 0;  // on a device that is to be relieved
  bool was_rewritten = false;         // some node carries our attribute
  std::string opaque_call;            // a call that XLA compiles as a whole; empty when there is none
};
Scan scan_graphdef(std::string_view graphdef, const Configuration& configuration);

}  // namespace ebb::grappler

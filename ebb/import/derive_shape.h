// The shape of what an operator of TensorFlow's makes, from the shapes of what it reads and from
// what the operands hold that say how large it is (known_values.h): what TensorFlow itself finds
// when the step runs. For operators that training steps are made of, and that leave dimensions
// open.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ebb/graph/graph.h"
#include "ebb/import/known_values.h"

namespace ebb {

// Whether the result has the shape of its operands; where these are broadcast, of the largest.
bool is_elementwise(std::string_view op);

// Of the node's first result; `kUnknownDim` for what does not follow. nullopt: not even the rank
// does, or the operator is not known here.
std::optional<std::vector<std::int64_t>> derive_shape(const Graph& graph, const KnownValues& known,
                                                      NodeId node);

}  // namespace ebb

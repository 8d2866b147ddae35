// PyTorch's derivative of a convolution, the operator that rewriting may split (rewrite/split.h):
//
//   %gx, %gw, %gb = aten::convolution_backward(%g, %x, %w) {output_mask = [true, true, true]}
//
// gives the gradients of input, weight and bias, as many as the mask has a `true`, of the gradient
// of the output, the input and the weight. Each is computed for itself. That of the input depends
// on %g and %w alone: of %x it needs to know where the elements lie, which is where those of %gx
// lie. A call that computes nothing else may have `none` in the place of %x.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "ebb/graph/graph.h"

namespace ebb {

inline constexpr std::string_view kConvolutionBackward = "aten::convolution_backward";
inline constexpr std::string_view kOutputMask = "output_mask";
inline constexpr std::size_t kConvolutionInput = 1;  // which of its operands is %x

// Whether the gradients of input, weight and bias are computed.
using GradientMask = std::array<bool, 3>;

// Of such a call, if it has the operands that it should have, a mask, and for each gradient a
// result with bytes of its own, all on one side of the link; nullopt for everything else.
std::optional<GradientMask> gradient_mask(const Graph& graph, NodeId node);

}  // namespace ebb

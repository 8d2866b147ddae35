// Makes two calls of a convolution's derivative that computes several gradients in one, so that
// input and gradient of the input need not be there at the same time (convolution_backward.h).
//
// Before:  %gx, %gw, %gb = aten::convolution_backward(%g, %x, %w)     {output_mask = [true, ...]}
// After:   %gw, %gb = aten::convolution_backward(%g, %x, %w)    {output_mask = [false, ...]}
//          %gx = aten::convolution_backward(%g, none, %w)   {output_mask = [true, false, false]}
//                after gw
//          Tensors keep their names, and calls are named by their first result as always: the one
//          that was there goes on as 'gx', the one that is added is 'gw' (or 'gb').
// When:    the gradient of the input is one of several; the input lies as its gradient does; the
//          call is pure, no clone, and nobody computes it again.
// Why:     PyTorch computes each gradient for itself, by what the mask does not change. That of the
//          input looks at no element of the input. The second call waits for the first, so whoever
//          waited for the one call waits for all that it waited for.
//
// The weight's gradient comes first because it is the last that reads %x, which is what a step has
// kept since its forward phase: %x dies, and then %gx takes its place. The other way round both
// would be there while the second call runs. The two share what the text says that the one takes,
// half each, as they do the same number of multiplications; each may need its whole workspace.
#pragma once

#include <string_view>

#include "ebb/base/result.h"
#include "ebb/rewrite/decision.h"

namespace ebb {

class Rewriter;

struct Split {
  static constexpr std::string_view kName = "split";
  [[nodiscard]] static Status check(const Rewriter& rewriter, const SplitDecision& decision);
  static void apply(Rewriter& rewriter, const SplitDecision& decision);
};

}  // namespace ebb

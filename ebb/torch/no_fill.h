// Keeps PyTorch from filling fresh memory.
//
// With torch.use_deterministic_algorithms(True), PyTorch fills what it allocates with NaN, so that
// reading uninitialized memory shows. In an arena fresh memory may be that of an operand which dies
// with the operation and is read while the result is written. The switch is one for the whole
// process: it is off as long as some thread runs a step, and then as the user had it.
#pragma once

namespace ebb::torch {

class NoFill {
 public:
  NoFill();
  NoFill(const NoFill&) = delete;
  NoFill& operator=(const NoFill&) = delete;
  ~NoFill();
};

}  // namespace ebb::torch

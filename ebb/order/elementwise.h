// Operators whose result may lie in the bytes of an operand that nobody needs afterwards.
//
// They compute each element of the result from the elements of the same index, on the CPU and on
// CUDA, and have read those before they write it; that is what makes `add_` out of `add`, and what
// lets a caller say `torch.add(a, b, out=b)`. Only operators whose kernels we know stand here:
// nothing is inferred, and what is missing costs memory, never bits.
#pragma once

#include <cstdint>
#include <string_view>

namespace ebb {

enum class TakeOver : std::uint8_t {
  kNever,
  // Of the first operand, and only if no other operand lies in the same storage: these write the
  // whole result before they read the others, or promise no more than that.
  kFirst,
  kAny,  // of any operand
  // Result i of operand i, for operators on lists; no other operand may lie in the same storage.
  kEach,
};

TakeOver may_take_over(std::string_view op);

}  // namespace ebb

// Whose rules a step runs by: when bytes change hands, and what waits for copies (simulate.h).
#pragma once

#include <cstdint>

namespace ebb {

enum class Clock : std::uint8_t {
  kCompleted,   // Ebb's runtime: when who used them has ended
  kEnqueued,    // TensorFlow, swaps by kernels of the device: when who uses them was enqueued
  kRendezvous,  // TensorFlow, swaps by nodes of the host: likewise, and edges go through streams
};

// Whether it is one of TensorFlow's.
constexpr bool is_tensorflow(Clock clock) { return clock != Clock::kCompleted; }

}  // namespace ebb

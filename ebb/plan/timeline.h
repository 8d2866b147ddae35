// What happens when in a step, predicted or measured: who computes, who copies, who waits for whom,
// and how many bytes are held.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ebb/base/units.h"
#include "ebb/graph/graph.h"

namespace ebb {

enum class Lane : std::uint8_t { kCompute, kToHost, kToDevice };
inline constexpr std::size_t kLaneCount = 3;
std::string_view name_of(Lane lane);

struct Span {
  NodeId node;
  Lane lane = Lane::kCompute;
  Duration start{};
  Duration end{};

  friend bool operator==(const Span&, const Span&) = default;
};

// Why the compute lane stands still.
enum class StallCause : std::uint8_t {
  kArrival,  // what the operation reads is still on its way back
  kRelease,  // bytes that it may take are still on their way out
  kControl,  // it was told to wait for a copy, or overwrites what is being copied
};
inline constexpr std::size_t kStallCauseCount = 3;
std::string_view name_of(StallCause cause);

struct Stall {
  NodeId node;     // who waits
  NodeId awaited;  // for this copy
  StallCause cause = StallCause::kArrival;
  Duration start{};
  Duration end{};

  friend bool operator==(const Stall&, const Stall&) = default;
};

// Held from this time on, until the next one.
struct MemoryPoint {
  Duration time{};
  Bytes device;
  Bytes host;

  friend bool operator==(const MemoryPoint&, const MemoryPoint&) = default;
};

struct Timeline {
  std::vector<Span> spans;    // of each lane in the order of time; what takes no time has none
  std::vector<Stall> stalls;  // in the order of time
  std::vector<MemoryPoint> memory;
  Duration total{};
  std::array<Duration, kLaneCount> busy{};           // by lane
  std::array<Duration, kStallCauseCount> stalled{};  // by cause
  Bytes device_peak;                                 // of `memory`
  Bytes host_peak;
};

}  // namespace ebb

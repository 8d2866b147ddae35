// Two copy engines, one each way, that share a link: when does each copy end?
//
//   LinkClock clock(link);
//   const CopyId out = clock.add(CopyDirection::kToHost, Bytes{...}, /*ready=*/100us);
//   clock.end_of(out);
//
// The model: an engine makes its copies one after the other in the order in which they were added,
// each when it is ready and the copies it comes after have ended. A copy takes the link's latency
// and then its bytes at the link's speed, the lower one while the other way is busy as well, but no
// less than the shortest copy. All times are since the start of the step. Deterministic; O(1) a
// copy.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ebb/base/units.h"
#include "ebb/plan/device.h"

namespace ebb {

struct CopyId {
  CopyDirection direction = CopyDirection::kToHost;
  std::uint32_t index = 0;  // in its direction

  friend bool operator==(CopyId, CopyId) = default;
};

struct CopyTimes {
  Duration start;
  Duration end;
};

class LinkClock {
 public:
  explicit LinkClock(const Link& link) : link_(link) {}

  // Copies are added in the order of their `ready`, and none that is ready before the end of one
  // that was asked for: whoever waits for a copy starts no other meanwhile.
  CopyId add(CopyDirection direction, Bytes bytes, Duration ready, std::vector<CopyId> after = {});

  // Whether it ends by this time, before which nothing more will be added.
  bool ends_by(CopyId copy, Duration time);
  // What it needs to know until then must have been added.
  Duration end_of(CopyId copy) { return times_of(copy).end; }
  CopyTimes times_of(CopyId copy);

  [[nodiscard]] std::uint32_t count(CopyDirection direction) const {
    return static_cast<std::uint32_t>(engine(direction).copies.size());
  }

 private:
  struct Copy {
    double bytes = 0;
    double ready = 0;
    std::vector<CopyId> after;
    double start = 0;
    double end = 0;
  };
  struct Engine {
    std::vector<Copy> copies;
    std::uint32_t ended = 0;   // how many have: the next one is the current one
    bool is_busy = false;      // with the current one
    double shortest_left = 0;  // of the time that no copy is shorter than
    double latency_left = 0;
    double bytes_left = 0;
  };

  [[nodiscard]] Engine& engine(CopyDirection direction) {
    return engines_[static_cast<std::size_t>(direction)];
  }
  [[nodiscard]] const Engine& engine(CopyDirection direction) const {
    return engines_[static_cast<std::size_t>(direction)];
  }
  [[nodiscard]] bool has_ended(CopyId copy) const {
    return copy.index < engine(copy.direction).ended;
  }
  [[nodiscard]] std::optional<double> start_of_next(const Engine& engine) const;
  [[nodiscard]] double time_left(CopyDirection direction) const;
  void work(CopyDirection direction, double duration);
  [[nodiscard]] double next_event() const;
  void step();

  Link link_;
  std::array<Engine, 2> engines_;
  double now_ = 0;
};

}  // namespace ebb

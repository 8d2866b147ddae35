#include "tests/exec/access_order.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace ebb {
namespace {

std::size_t common_bytes(const Touch& one, const Touch& other) {
  const std::byte* begin = std::max(one.begin, other.begin);
  const std::byte* end = std::min(one.begin + one.size, other.begin + other.size);
  return begin < end ? static_cast<std::size_t>(end - begin) : 0;
}

// Whoever conflicts with `old` conflicts with `touch`.
bool stands_for(const Touch& touch, const Touch& old) {
  return (touch.writes || !old.writes) && common_bytes(touch, old) == old.size;
}

}  // namespace

void join(VectorClock& clock, const VectorClock& other) {
  if (clock.size() < other.size()) clock.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

bool AccessOrder::is_before(const Access& access, const VectorClock& clock) {
  return access.worker < clock.size() && access.number <= clock[access.worker];
}

void AccessOrder::note(const Moment& moment, const std::string& name,
                       std::span<const Touch> touches) {
  for (const Touch& touch : touches) {
    for (const Access& access : accesses_) {
      const std::size_t common = common_bytes(touch, access.touch);
      if (common == 0 || !(touch.writes || access.touch.writes) || is_before(access, moment.clock))
        continue;
      races_.push_back(
          fmt::format("'{}' and '{}' touch {} bytes in any order", access.name, name, common));
    }
    // What comes after this operation comes after those, too.
    std::erase_if(accesses_, [&](const Access& access) {
      return is_before(access, moment.clock) && stands_for(touch, access.touch);
    });
  }
  for (const Touch& touch : touches) {
    accesses_.push_back(
        {.touch = touch, .worker = moment.worker, .number = moment.number(), .name = name});
  }
}

void AccessOrder::forget_before(const VectorClock& clock) {
  std::erase_if(accesses_, [&](const Access& access) { return is_before(access, clock); });
}

std::vector<std::string> AccessOrder::take_races() { return std::exchange(races_, {}); }

}  // namespace ebb

#include "ebb/plan/link_clock.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ebb/base/check.h"

namespace ebb {
namespace {

constexpr std::array kDirections = {CopyDirection::kToHost, CopyDirection::kToDevice};
constexpr double kNanoseconds = 1e9;

double speed(const Link& link, CopyDirection direction, bool is_other_busy) {
  const bool to_host = direction == CopyDirection::kToHost;
  const Bandwidth alone = to_host ? link.to_host : link.to_device;
  const Bandwidth both = to_host ? link.to_host_both : link.to_device_both;
  return (is_other_busy ? both : alone).bytes_per_second / kNanoseconds;
}

CopyDirection other(CopyDirection direction) {
  return direction == CopyDirection::kToHost ? CopyDirection::kToDevice : CopyDirection::kToHost;
}

Duration rounded_up(double nanoseconds) {
  constexpr double kLongest = 1e18;  // 32 years
  return Duration(static_cast<std::int64_t>(std::ceil(std::min(nanoseconds, kLongest))));
}

}  // namespace

CopyId LinkClock::add(CopyDirection direction, Bytes bytes, Duration ready,
                      std::vector<CopyId> after) {
  Engine& engine = this->engine(direction);
  engine.copies.push_back({.bytes = static_cast<double>(bytes.count),
                           .ready = static_cast<double>(ready.count()),
                           .after = std::move(after),
                           .start = 0,
                           .end = 0});
  return {direction, static_cast<std::uint32_t>(engine.copies.size() - 1)};
}

CopyTimes LinkClock::times_of(CopyId copy) {
  while (!has_ended(copy)) step();
  const Copy& done = engine(copy.direction).copies[copy.index];
  return {rounded_up(done.start), rounded_up(done.end)};
}

// When the engine's next copy could start; nullopt when there is none, or it waits for one that has
// not ended.
std::optional<double> LinkClock::start_of_next(const Engine& engine) const {
  if (engine.is_busy || engine.ended == engine.copies.size()) return std::nullopt;
  const Copy& next = engine.copies[engine.ended];
  const auto has_ended = [this](CopyId copy) { return this->has_ended(copy); };
  if (!std::all_of(next.after.begin(), next.after.end(), has_ended)) return std::nullopt;
  return std::max(next.ready, now_);
}

double LinkClock::time_left(CopyDirection direction) const {
  const Engine& engine = this->engine(direction);
  const bool is_other_busy = this->engine(other(direction)).is_busy;
  return std::max(engine.shortest_left,
                  engine.latency_left + engine.bytes_left / speed(link_, direction, is_other_busy));
}

void LinkClock::work(CopyDirection direction, double duration) {
  Engine& engine = this->engine(direction);
  const double waited = std::min(duration, engine.latency_left);
  const bool is_other_busy = this->engine(other(direction)).is_busy;
  const double moved = (duration - waited) * speed(link_, direction, is_other_busy);
  engine.shortest_left = std::max(0.0, engine.shortest_left - duration);
  engine.latency_left -= waited;
  engine.bytes_left = std::max(0.0, engine.bytes_left - moved);
}

bool LinkClock::ends_by(CopyId copy, Duration time) {
  const auto limit = static_cast<double>(time.count());
  while (!has_ended(copy) && next_event() <= limit) step();
  return has_ended(copy) && engine(copy.direction).copies[copy.index].end <= limit;
}

// The next time at which a copy starts or ends; infinity when none will.
double LinkClock::next_event() const {
  double next = std::numeric_limits<double>::infinity();
  for (const CopyDirection direction : kDirections) {
    if (engine(direction).is_busy) next = std::min(next, now_ + time_left(direction));
    if (const auto start = start_of_next(engine(direction))) next = std::min(next, *start);
  }
  return next;
}

void LinkClock::step() {
  const double next = next_event();
  EBB_CHECK(std::isfinite(next), "a copy waits for one that was not added");
  std::array<bool, 2> ends{};
  for (const CopyDirection direction : kDirections) {
    ends[static_cast<std::size_t>(direction)] =
        engine(direction).is_busy && now_ + time_left(direction) <= next;
  }
  for (const CopyDirection direction : kDirections) {
    if (engine(direction).is_busy) work(direction, next - now_);
  }
  now_ = next;
  for (const CopyDirection direction : kDirections) {
    Engine& each = engine(direction);
    if (ends[static_cast<std::size_t>(direction)]) {
      each.is_busy = false;
      each.copies[each.ended++].end = now_;
    }
  }
  for (const CopyDirection direction : kDirections) {
    Engine& each = engine(direction);
    const auto start = start_of_next(each);
    if (!start || *start > now_) continue;
    each.is_busy = true;
    Copy& copy = each.copies[each.ended];
    copy.start = now_;
    each.shortest_left = static_cast<double>(link_.shortest.count());
    each.latency_left = static_cast<double>(link_.latency.count());
    each.bytes_left = copy.bytes;
  }
}

}  // namespace ebb

// A heuristic that turns an order of items, the most important first, into offsets.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace ebb {

// Work that may still be done, in units of about a tenth of a microsecond. Counted, not timed:
// the same problem ends at the same point on every machine.
class Effort {
 public:
  explicit Effort(std::int64_t amount) : left_(amount) {}
  static Effort unlimited() { return Effort(std::numeric_limits<std::int64_t>::max()); }

  void spend(std::int64_t amount) { left_ -= amount; }
  [[nodiscard]] bool any_left() const { return left_ > 0; }

 private:
  std::int64_t left_;
};

class Placer {
 public:
  Placer() = default;
  Placer(const Placer&) = delete;
  Placer& operator=(const Placer&) = delete;
  virtual ~Placer() = default;

  // Fills `offsets` (by item) and returns the size of the arena. Gives up when that comes to
  // `limit` or more, or when no effort is left; then the offsets mean nothing.
  virtual std::optional<std::int64_t> place(std::span<const std::uint32_t> order,
                                            std::int64_t limit, Effort& effort,
                                            std::span<std::int64_t> offsets) = 0;
};

}  // namespace ebb

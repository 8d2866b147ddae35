// Random choices that are the same on every machine: std::uniform_int_distribution differs from
// library to library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace ebb {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}

  std::size_t below(std::size_t sides) { return engine_() % sides; }
  bool one_in(std::size_t sides) { return below(sides) == 0; }
  template <class T>
  const T& pick(const std::vector<T>& items) {
    return items[below(items.size())];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace ebb

// What lines hold, while bytes are taken from and given to many lines at a time: the most of all,
// where it is, and the most of some. Each in O(log lines).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ebb/base/units.h"

namespace ebb {

class LoadTree {
 public:
  explicit LoadTree(std::span<const Bytes> held);

  // To each of [first, last).
  void add(std::uint32_t first, std::uint32_t last, Bytes bytes);
  [[nodiscard]] Bytes max() const { return Bytes{maxima_[1]}; }
  // The first line that holds the most.
  [[nodiscard]] std::uint32_t argmax() const;
  // Of [first, last), which is not empty.
  [[nodiscard]] Bytes max(std::uint32_t first, std::uint32_t last) const;

 private:
  [[nodiscard]] std::int64_t larger_child(std::uint32_t node) const;
  void add(std::uint32_t node, std::uint32_t begin, std::uint32_t end, std::uint32_t first,
           std::uint32_t last, std::int64_t bytes);
  [[nodiscard]] std::int64_t max(std::uint32_t node, std::uint32_t begin, std::uint32_t end,
                                 std::uint32_t first, std::uint32_t last) const;

  std::uint32_t leaves_ = 1;          // a power of two
  std::vector<std::int64_t> maxima_;  // of the lines below, with what was added here and below
  std::vector<std::int64_t> added_;   // to all lines below
};

}  // namespace ebb

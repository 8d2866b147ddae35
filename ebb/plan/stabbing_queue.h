// Intervals of lines, each with a price: the cheapest one that covers a given line. O(log n) each;
// equal prices in the order of their numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace ebb {

class StabbingQueue {
 public:
  // For lines 0 to `lines` - 1 and intervals numbered 0 to `count` - 1.
  StabbingQueue(std::uint32_t lines, std::uint32_t count);

  // [first, last); again, with another price, it replaces the one before.
  void put(std::uint32_t id, std::uint32_t first, std::uint32_t last, double price);
  void remove(std::uint32_t id) { ++turns_[id]; }
  std::optional<std::uint32_t> cheapest_at(std::uint32_t line);
  [[nodiscard]] double price(std::uint32_t id) const { return prices_[id]; }

 private:
  struct Entry {
    double price = 0;
    std::uint32_t id = 0;
    std::uint32_t turn = 0;  // an entry of an earlier turn is void

    friend bool operator<(const Entry& a, const Entry& b) {  // for heaps: the cheapest on top
      return a.price != b.price ? a.price > b.price : a.id > b.id;
    }
  };

  std::uint32_t leaves_ = 1;
  std::vector<std::vector<Entry>> heaps_;  // of a segment tree
  std::vector<std::uint32_t> turns_;
  std::vector<double> prices_;
};

}  // namespace ebb

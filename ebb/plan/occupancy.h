// Which addresses are taken in which sections.
//
// A segment tree over sections. Each node keeps two sets of addresses, as sorted lists of disjoint
// ranges: those taken throughout its sections by what was put at this very node, and those taken in
// any of them by what was put here or below. What is taken during some sections is then the union
// of O(log sections) such lists. Ranges that touch grow together, so lists are short however many
// items there are: neighbours in the arena fill its holes.
#pragma once

#include <cstdint>
#include <vector>

namespace ebb {

struct AddressRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

class Occupancy {
 public:
  explicit Occupancy(std::uint32_t sections);

  void clear();
  void add(std::uint32_t first, std::uint32_t last, AddressRange range);
  // Replaces `taken` by what is taken in any of these sections, sorted; ranges may overlap.
  void find(std::uint32_t first, std::uint32_t last, std::vector<AddressRange>& taken) const;

 private:
  struct Node {
    std::vector<AddressRange> throughout;
    std::vector<AddressRange> anywhere;
  };
  struct Span {
    std::size_t node = 1;
    std::uint32_t first = 0;
    std::uint32_t last = 0;
  };
  [[nodiscard]] Span whole() const { return {1, 0, width_ - 1}; }
  static Span left_half(Span span);
  static Span right_half(Span span);
  static void insert(std::vector<AddressRange>& ranges, AddressRange range);
  void add_below(Span span, std::uint32_t first, std::uint32_t last, AddressRange range);
  void find_below(Span span, std::uint32_t first, std::uint32_t last,
                  std::vector<AddressRange>& taken) const;

  std::uint32_t width_;  // a power of two, >= the number of sections
  std::vector<Node> nodes_;
};

}  // namespace ebb

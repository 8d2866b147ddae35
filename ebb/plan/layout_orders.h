// Orders in which placers may take items, the most promising for training steps first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ebb/plan/layout_problem.h"

namespace ebb {

using LayoutOrder = std::vector<std::uint32_t>;  // items, the most important first

// All items in a number of orders, made one by one as they are asked for: O(n log n) each.
class LayoutOrders {
 public:
  explicit LayoutOrders(const LayoutProblem& problem);

  static std::size_t count();
  [[nodiscard]] LayoutOrder operator[](std::size_t i) const;

  // What may make an item important.
  struct Traits {
    double load = 0;    // the largest sum of sizes alive together with it at one time
    double length = 0;  // of its life, in sections
    double size = 0;
    double area = 0;  // size * length
    double birth = 0;
  };

 private:
  std::vector<Traits> traits_;  // by item
};

}  // namespace ebb

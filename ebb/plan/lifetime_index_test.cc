#include "ebb/plan/lifetime_index.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace ebb {
namespace {

TEST(LifetimeIndex, FindsNothingAmongNoItems) {
  LifetimeIndex index({});
  index.fill({});
  EXPECT_EQ(index.find(0, 100), LifetimeIndex::kNone);
}

// Against a look at every item, while all are taken out one by one, twice.
TEST(LifetimeIndex, FindsTheLowestRankThatLivesWithin) {
  std::mt19937 random(1);
  for (const std::uint32_t count : {1U, 2U, 3U, 7U, 64U, 200U}) {
    std::vector<LayoutItem> items(count);
    for (LayoutItem& item : items) {
      item.first = static_cast<std::uint32_t>(random() % 40);
      item.last = item.first + static_cast<std::uint32_t>(random() % 20);
    }
    LifetimeIndex index(items);
    for (int round = 0; round < 2; ++round) {
      std::vector<std::uint32_t> ranks(count);
      std::iota(ranks.begin(), ranks.end(), 0U);
      std::shuffle(ranks.begin(), ranks.end(), random);
      index.fill(ranks);
      std::vector<bool> there(count, true);
      for (std::uint32_t gone = 0; gone < count; ++gone) {
        const auto first = static_cast<std::uint32_t>(random() % 40);
        const auto last = first + static_cast<std::uint32_t>(random() % 40);
        std::uint32_t lowest = LifetimeIndex::kNone;
        for (std::uint32_t i = 0; i < count; ++i) {
          const bool within = first <= items[i].first && items[i].last <= last;
          if (there[i] && within) lowest = std::min(lowest, ranks[i]);
        }
        ASSERT_EQ(index.find(first, last), lowest) << count << " items, " << gone << " gone";
        index.take_out(gone);
        there[gone] = false;
      }
      EXPECT_EQ(index.find(0, 100), LifetimeIndex::kNone);
    }
  }
}

}  // namespace
}  // namespace ebb

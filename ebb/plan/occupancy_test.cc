#include "ebb/plan/occupancy.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace ebb {
namespace {

constexpr std::int64_t kAddresses = 100;

TEST(Occupancy, IsFreeAtFirst) {
  const Occupancy occupancy(10);
  std::vector<AddressRange> taken = {{1, 2}};
  occupancy.find(0, 9, taken);
  EXPECT_TRUE(taken.empty());
}

TEST(Occupancy, JoinsRangesThatTouch) {
  Occupancy occupancy(8);
  occupancy.add(0, 7, {0, 5});
  occupancy.add(0, 7, {7, 9});
  occupancy.add(0, 7, {5, 7});
  std::vector<AddressRange> taken;
  occupancy.find(0, 7, taken);
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].begin, 0);
  EXPECT_EQ(taken[0].end, 9);
}

// Against a table of every address in every section.
TEST(Occupancy, FindsWhatIsTakenInAnyOfTheSections) {
  std::mt19937 random(1);
  for (const std::uint32_t sections : {1U, 2U, 5U, 16U, 33U}) {
    Occupancy occupancy(sections);
    for (int round = 0; round < 3; ++round) {
      occupancy.clear();
      std::vector<std::vector<bool>> table(sections, std::vector<bool>(kAddresses, false));
      for (int step = 0; step < 60; ++step) {
        const auto first = static_cast<std::uint32_t>(random() % sections);
        const auto last = first + static_cast<std::uint32_t>(random() % (sections - first));
        std::vector<AddressRange> taken;
        occupancy.find(first, last, taken);
        EXPECT_TRUE(std::is_sorted(taken.begin(), taken.end(),
                                   [](const auto& a, const auto& b) { return a.begin < b.begin; }));
        for (std::int64_t address = 0; address < kAddresses; ++address) {
          bool expected = false;
          for (std::uint32_t s = first; s <= last; ++s) {
            expected = expected || table[s][static_cast<std::size_t>(address)];
          }
          const bool found = std::any_of(taken.begin(), taken.end(), [&](const AddressRange& r) {
            return r.begin <= address && address < r.end;
          });
          ASSERT_EQ(found, expected) << "address " << address << " in " << first << " to " << last;
        }
        const auto begin = static_cast<std::int64_t>(random() % (kAddresses - 10));
        const std::int64_t end = begin + 1 + static_cast<std::int64_t>(random() % 10);
        occupancy.add(first, last, {begin, end});
        for (std::uint32_t s = first; s <= last; ++s) {
          for (std::int64_t a = begin; a < end; ++a) table[s][static_cast<std::size_t>(a)] = true;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ebb

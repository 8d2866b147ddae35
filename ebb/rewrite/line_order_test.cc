#include "ebb/rewrite/line_order.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace ebb {
namespace {

std::vector<NodeId> first_nodes(std::uint32_t count) {
  std::vector<NodeId> nodes;
  nodes.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) nodes.emplace_back(i);
  return nodes;
}

void expect_is(const LineOrder& lines, const std::vector<NodeId>& expected) {
  ASSERT_EQ(lines.lines(), expected);
  for (std::size_t i = 1; i < expected.size(); ++i) {
    ASSERT_TRUE(lines.is_before(expected[i - 1], expected[i]));
    ASSERT_FALSE(lines.is_before(expected[i], expected[i - 1]));
    ASSERT_EQ(lines.next(expected[i - 1]), expected[i]);
    ASSERT_EQ(lines.previous(expected[i]), expected[i - 1]);
  }
}

TEST(LineOrder, AgreesWithAVectorUnderRandomInsertionsAndMoves) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::mt19937_64 engine(seed);
    std::vector<NodeId> expected = first_nodes(1 + static_cast<std::uint32_t>(engine() % 20));
    LineOrder lines(expected);
    for (int i = 0; i < 300; ++i) {
      const auto at = expected.begin() + static_cast<std::ptrdiff_t>(engine() % expected.size());
      const NodeId where = *at;
      const NodeId line(static_cast<std::uint32_t>(expected.size()));
      switch (engine() % 3) {
        case 0:
          lines.insert_after(where, line);
          expected.insert(at + 1, line);
          break;
        case 1:
          lines.insert_before(where, line);
          expected.insert(at, line);
          break;
        default: {
          const NodeId moved = expected[engine() % expected.size()];
          if (moved == where) break;
          lines.move_after(where, moved);
          std::erase(expected, moved);
          expected.insert(std::find(expected.begin(), expected.end(), where) + 1, moved);
        }
      }
    }
    expect_is(lines, expected);
  }
}

// Halving a gap of 2^62 labels ends after 62 insertions; these are many more, at one place each.
TEST(LineOrder, HasRoomForManyLinesAtOnePlace) {
  constexpr std::uint32_t kLines = 100'000;
  LineOrder below(first_nodes(3));
  LineOrder above(first_nodes(3));
  for (std::uint32_t i = 3; i < kLines; ++i) {
    below.insert_after(NodeId(1), NodeId(i));
    above.insert_before(NodeId(0), NodeId(i));
  }
  for (const LineOrder* lines : {&below, &above}) {
    const std::vector<NodeId> order = lines->lines();
    ASSERT_EQ(order.size(), kLines);
    for (std::size_t i = 1; i < order.size(); ++i) {
      ASSERT_TRUE(lines->is_before(order[i - 1], order[i]));
    }
  }
}

TEST(LineOrder, HangsLinesBelowTheirAnchorInTheOrderOfTheirComing) {
  LineOrder lines(first_nodes(2));
  const NodeId anchor(0);
  const NodeId limit(1);
  lines.hang(anchor, NodeId(2), limit);
  lines.hang(anchor, NodeId(3), limit);
  lines.hang(NodeId(2), NodeId(4), limit);  // below one of those
  lines.hang(anchor, NodeId(5), limit);
  lines.hang_first(anchor, NodeId(6));
  lines.hang(NodeId(3), NodeId(7), limit);
  lines.hang(anchor, NodeId(8), limit);
  expect_is(lines, {NodeId(0), NodeId(6), NodeId(2), NodeId(4), NodeId(3), NodeId(7), NodeId(5),
                    NodeId(8), NodeId(1)});
}

// What the last line below an anchor is, said by looking at all of them.
TEST(LineOrder, HangsLinesInChainsAndTreesWhereAVectorWould) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 engine(seed);
    std::vector<NodeId> expected = first_nodes(4);
    std::vector<NodeId> anchors(4);
    LineOrder lines(expected);
    const auto hangs_below = [&](NodeId line, NodeId top) {
      while (line.valid() && line != top) line = anchors[line.index()];
      return line.valid();
    };
    for (int i = 0; i < 100; ++i) {
      const NodeId line(static_cast<std::uint32_t>(expected.size()));
      const std::size_t place = engine() % (expected.size() - 1);
      const NodeId anchor = engine() % 2 == 0 ? expected[place] : NodeId(line.index() - 1);
      auto above = std::find(expected.begin(), expected.end(), anchor);
      if (engine() % 3 == 0 || above + 1 == expected.end()) {
        lines.hang_first(anchor, line);
      } else {
        const auto lower = static_cast<std::size_t>(expected.end() - above - 1);
        const auto limit = above + 1 + static_cast<std::ptrdiff_t>(engine() % lower);
        const auto last = std::find_if(expected.rbegin(), expected.rend(),
                                       [&](NodeId each) { return hangs_below(each, anchor); });
        lines.hang(anchor, line, *limit);
        if (last.base() <= limit) above = last.base() - 1;
      }
      expected.insert(above + 1, line);
      anchors.push_back(anchor);
    }
    expect_is(lines, expected);
  }
}

TEST(LineOrder, HangsALineRightBelowItsAnchorWhereTheOthersReachTheLimit) {
  LineOrder lines(first_nodes(2));
  lines.hang(NodeId(0), NodeId(2), NodeId(1));
  lines.move_after(NodeId(1), NodeId(2));
  lines.hang(NodeId(0), NodeId(3), NodeId(1));
  expect_is(lines, {NodeId(0), NodeId(3), NodeId(1), NodeId(2)});
}

}  // namespace
}  // namespace ebb

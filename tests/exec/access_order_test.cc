// Who touches the same bytes in any order is named, and nobody else.
#include "tests/exec/access_order.h"

#include <array>

#include <gtest/gtest.h>

namespace ebb {
namespace {

std::array<std::byte, 8> memory;

Touch touch(std::size_t begin, std::size_t size, bool writes) {
  return {.begin = memory.data() + begin, .size = size, .writes = writes};
}

void note(AccessOrder& order, std::uint32_t worker, const VectorClock& clock, Touch touched) {
  order.note({.worker = worker, .clock = clock}, worker == 0 ? "one" : "other", {&touched, 1});
}

TEST(AccessOrder, NamesTwoThatTouchTheSameBytesInAnyOrder) {
  AccessOrder order;
  note(order, 0, {1, 0}, touch(0, 4, true));
  note(order, 1, {0, 1}, touch(2, 4, false));
  EXPECT_EQ(order.take_races(),
            std::vector<std::string>{"'one' and 'other' touch 2 bytes in any order"});
  EXPECT_TRUE(order.take_races().empty());
}

TEST(AccessOrder, LetsThoseAloneThatOnlyReadOrTouchOtherBytesOrAreInOrder) {
  AccessOrder order;
  note(order, 0, {1, 0}, touch(0, 4, false));
  note(order, 1, {0, 1}, touch(2, 4, false));
  note(order, 1, {0, 2}, touch(6, 2, true));
  note(order, 1, {1, 3}, touch(0, 4, true));
  EXPECT_TRUE(order.take_races().empty());
}

TEST(AccessOrder, RemembersWhatALaterAccessDoesNotStandFor) {
  AccessOrder order;
  note(order, 0, {1, 0}, touch(0, 4, true));
  note(order, 0, {2, 0}, touch(0, 4, false));  // a read stands for no write
  note(order, 1, {0, 1}, touch(0, 4, false));
  EXPECT_EQ(order.take_races().size(), 1U);
  note(order, 0, {3, 1}, touch(0, 2, true));  // nor half of the bytes for all
  note(order, 1, {0, 2}, touch(3, 1, true));
  EXPECT_EQ(order.take_races().size(), 2U) << "the write and the read of all";
}

TEST(AccessOrder, ForgetsWhatComesBeforeEverythingElse) {
  AccessOrder order;
  note(order, 0, {1, 0}, touch(0, 4, true));
  note(order, 0, {2, 0}, touch(4, 4, true));
  order.forget_before({1});
  note(order, 1, {0, 1}, touch(0, 4, true));
  EXPECT_TRUE(order.take_races().empty());
  note(order, 1, {0, 2}, touch(4, 4, true));
  EXPECT_EQ(order.take_races().size(), 1U);
}

}  // namespace
}  // namespace ebb

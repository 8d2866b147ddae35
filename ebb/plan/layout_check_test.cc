#include <vector>

#include <gtest/gtest.h>

#include "ebb/plan/layout.h"

namespace ebb {
namespace {

// Two buffers side by side, a third in place of the first, an empty one, a fixed one on top: right
// as it stands, so that each test below breaks one thing.
class CheckLayout : public ::testing::Test {
 protected:
  [[nodiscard]] std::string complaint() const {
    const Status status = check_layout(buffers_, layout_, options_);
    return status ? "none" : status.error().message;
  }

  std::vector<LayoutBuffer> buffers_ = {
      {.size = Bytes{100}, .first = 0, .last = 4, .at = {}},
      {.size = Bytes{64}, .first = 2, .last = 9, .at = {}},
      {.size = Bytes{128}, .first = 5, .last = 9, .at = {}},
      {.size = Bytes{0}, .first = 0, .last = 9, .at = {}},
      {.size = Bytes{10}, .first = 0, .last = 9, .at = Bytes{192}},
  };
  LayoutOptions options_;
  Layout layout_ = {
      .offsets = {Bytes{0}, Bytes{128}, Bytes{0}, Bytes{64}, Bytes{192}},
      .size = Bytes{256},
      .bound = Bytes{256},
  };
};

TEST_F(CheckLayout, AcceptsARightLayout) { EXPECT_EQ(complaint(), "none"); }

TEST_F(CheckLayout, AcceptsEmptyBuffersInsideOthers) {
  layout_.offsets[3] = Bytes{128};
  EXPECT_EQ(complaint(), "none");
}

TEST_F(CheckLayout, MissesAnOffset) {
  layout_.offsets.pop_back();
  EXPECT_EQ(complaint(), "the layout is wrong: it has 4 offsets for 5 buffers");
}

TEST_F(CheckLayout, FindsANegativeOffset) {
  layout_.offsets[0] = Bytes{-64};
  EXPECT_EQ(complaint(), "the layout is wrong: buffer 0 lies at -64");
}

TEST_F(CheckLayout, FindsAnOffsetThatIsNotAligned) {
  options_.alignment = Bytes{128};
  EXPECT_EQ(complaint(),
            "the layout is wrong: buffer 3 lies at 64, which is not a multiple of 128");
}

TEST_F(CheckLayout, FindsABufferOutsideTheArena) {
  layout_.offsets[1] = Bytes{256};
  EXPECT_EQ(
      complaint(),
      "the layout is wrong: buffer 1 of 64 bytes lies at 256, outside the arena of 256 bytes");
}

TEST_F(CheckLayout, FindsABufferBeyondAnyArena) {
  layout_.offsets[1] = Bytes{0x7FFFFFFFFFFFFFC0};
  EXPECT_EQ(complaint(),
            "the layout is wrong: buffer 1 of 64 bytes lies at 9223372036854775744, outside the "
            "arena of 256 bytes");
}

TEST_F(CheckLayout, FindsAFixedBufferElsewhere) {
  buffers_[4].at = Bytes{0};
  EXPECT_EQ(complaint(), "the layout is wrong: buffer 4 lies at 192 and must lie at 0");
}

TEST_F(CheckLayout, FindsTwoThatOverlapForOneTime) {
  buffers_[0].last = 5;
  EXPECT_EQ(complaint(),
            "the layout is wrong: buffers 0 and 2 overlap: bytes [0, 100) during times 0 to 5, and "
            "bytes [0, 128) during times 5 to 9");
}

TEST_F(CheckLayout, FindsOneThatReachesOneByteIntoTheNext) {
  buffers_[0].size = Bytes{129};
  EXPECT_EQ(complaint(),
            "the layout is wrong: buffers 0 and 1 overlap: bytes [0, 129) during times 0 to 4, and "
            "bytes [128, 192) during times 2 to 9");
}

TEST_F(CheckLayout, FindsOneThatReachesOneByteIntoTheOneBefore) {
  buffers_[2].size = Bytes{129};
  EXPECT_EQ(complaint(),
            "the layout is wrong: buffers 1 and 2 overlap: bytes [128, 192) during times 2 to 9, "
            "and bytes [0, 129) during times 5 to 9");
}

TEST_F(CheckLayout, FindsOneInsideAnother) {
  buffers_[1].size = Bytes{1};
  layout_.offsets[1] = Bytes{64};
  EXPECT_EQ(complaint(),
            "the layout is wrong: buffers 0 and 1 overlap: bytes [0, 100) during times 0 to 4, and "
            "bytes [64, 65) during times 2 to 9");
}

TEST_F(CheckLayout, FindsAnArenaLargerThanItsBuffers) {
  layout_.size = Bytes{320};
  EXPECT_EQ(complaint(), "the layout is wrong: its size is 320 bytes, and its buffers end at 256");
}

TEST_F(CheckLayout, FindsAnArenaWhoseSizeIsNotAligned) {
  layout_.size = Bytes{202};
  EXPECT_EQ(complaint(), "the layout is wrong: its size is 202 bytes, and its buffers end at 256");
}

TEST_F(CheckLayout, FindsAWrongBound) {
  layout_.bound = Bytes{192};
  EXPECT_EQ(complaint(), "the layout is wrong: its bound is 192 bytes instead of 256");
}

TEST_F(CheckLayout, CountsTheEndOfFixedBuffersInTheBound) {
  buffers_ = {{.size = Bytes{10}, .first = 0, .last = 0, .at = Bytes{192}}};
  layout_.offsets = {Bytes{192}};
  EXPECT_EQ(complaint(), "none");
}

}  // namespace
}  // namespace ebb

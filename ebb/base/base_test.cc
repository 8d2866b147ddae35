// Results, checks, ids, UTF-8 and guesses.
#include <type_traits>

#include <gtest/gtest.h>

#include "ebb/base/check.h"
#include "ebb/base/hash_index.h"
#include "ebb/base/ids.h"
#include "ebb/base/nearest.h"
#include "ebb/base/result.h"
#include "ebb/base/utf8.h"

namespace ebb {
namespace {

using AppleId = Id<struct AppleTag>;
using PearId = Id<struct PearTag>;

TEST(Error, RendersThePartsItHas) {
  Error error{.kind = ErrorKind::kBadInput, .code = "P12", .message = "no", .place = {3, 7}};
  EXPECT_EQ(error.render("a.ebb"), "a.ebb:3:7: P12: no");
  error.place.column = 0;
  EXPECT_EQ(error.render("a.ebb"), "a.ebb:3: P12: no");
  error.place.line = 0;
  error.code.clear();
  EXPECT_EQ(error.render("a.ebb"), "a.ebb: no");
  EXPECT_EQ(error.render(""), "no");
}

TEST(Error, StaysOnOneLineWhateverItQuotes) {
  const Error error{
      .kind = ErrorKind::kBadInput, .code = {}, .message = "a\nb\x1b[0m", .place = {}};
  EXPECT_EQ(error.render("x\ty"), "x\\x09y: a\\x0ab\\x1b[0m");
}

TEST(Error, LongMessagesAreCutAndC1ControlsSpelledOut) {
  const Error error{
      .kind = ErrorKind::kBadInput, .code = {}, .message = std::string(5000, 'x'), .place = {}};
  EXPECT_EQ(error.render("f"), "f: " + std::string(1000, 'x') + " ...");
  EXPECT_EQ(printable("a\xc2\x9b"
                      "b\xc2\xa0"),
            "a\\u009bb\xc2\xa0");
}

TEST(Check, ThrowsWithThePlaceAndTheCondition) {
  const int left = 3;
  try {
    EBB_CHECK(left < 2, "left is {}", left);
    FAIL();
  } catch (const InternalError& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("base_test.cc:"), std::string::npos);
    EXPECT_NE(what.find("left is 3 (expected: left < 2)"), std::string::npos);
    EXPECT_EQ(error.dump(), "");
  }
}

TEST(Ids, OfDifferentThingsDoNotConvert) {
  static_assert(!std::is_convertible_v<AppleId, PearId>);
  static_assert(!std::is_convertible_v<int, AppleId>);
  EXPECT_FALSE(AppleId().valid());
  EXPECT_TRUE(AppleId(0).valid());
  EXPECT_LT(AppleId(0), AppleId(1));
}

TEST(Ids, RangesVisitEachOnce) {
  std::vector<AppleId> seen;
  for (const AppleId id : IdRange<AppleId>(3, 2)) seen.push_back(id);
  EXPECT_EQ(seen, (std::vector{AppleId(3), AppleId(4)}));
  EXPECT_TRUE(IdRange<AppleId>().empty());
}

TEST(HashIndex, FindsWhatWasInsertedAmongManyAndNothingElse) {
  HashIndex index;
  const auto key = [](std::uint32_t i) { return "key" + std::to_string(i); };
  constexpr std::uint32_t kCount = 10'000;
  for (std::uint32_t i = 0; i < kCount; ++i) index.insert(hash_bytes(key(i)), i);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(index.find(hash_bytes(key(i)), [&](std::uint32_t id) { return id == i; }), i);
  }
  EXPECT_EQ(index.find(hash_bytes("other"), [&](std::uint32_t id) { return key(id) == "other"; }),
            HashIndex::kNone);
}

TEST(HashIndex, SurvivesEqualHashes) {
  HashIndex index;
  for (std::uint32_t i = 0; i < 100; ++i) index.insert(42, i);
  for (std::uint32_t i = 0; i < 100; ++i) {
    EXPECT_EQ(index.find(42, [&](std::uint32_t id) { return id == i; }), i);
  }
}

TEST(Utf8, AcceptsAllLengthsAndRefusesTheWrongOnes) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("plain ascii, longer than eight bytes"));
  EXPECT_TRUE(is_utf8("γ → 𝄞 \x7f"));
  EXPECT_TRUE(is_utf8("\xf4\x8f\xbf\xbf"));
  for (const char* wrong : {"\x80", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xe2\x82",
                            "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
    EXPECT_FALSE(is_utf8(wrong));
    EXPECT_EQ(first_invalid_utf8(std::string("12345678901") + wrong), 11U);
  }
}

TEST(NearestWord, PrefersTheClosestAndTheFirstOfEquals) {
  NearestWord nearest("relu_");
  for (const char* word : {"gelu", "relu", "relu6", "matmul"}) nearest.offer(word);
  EXPECT_EQ(nearest.word(), "relu");
}

TEST(NearestWord, CountsSwappedNeighboursAsOneMistake) {
  NearestWord nearest("inptu");
  nearest.offer("input");
  EXPECT_EQ(nearest.word(), "input");
}

TEST(NearestWord, SaysNothingWhenNothingIsClose) {
  NearestWord nearest("convolution");
  nearest.offer("softmax");
  EXPECT_EQ(nearest.word(), "");
  NearestWord short_word("x");
  short_word.offer("y");
  EXPECT_EQ(short_word.word(), "");
  NearestWord long_word(std::string(1000, 'a'));
  long_word.offer(std::string(999, 'a'));
  EXPECT_EQ(long_word.word(), "");
}

}  // namespace
}  // namespace ebb

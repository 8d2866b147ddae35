#include "ebb/base/units.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

using std::chrono::microseconds;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(Units, BytesAreReadInPowersOf1024And1000) {
  EXPECT_EQ(parse_bytes("512B")->count, 512);
  EXPECT_EQ(parse_bytes("16GiB")->count, 16LL << 30);
  EXPECT_EQ(parse_bytes("1.5MiB")->count, 3 << 19);
  EXPECT_EQ(parse_bytes("16GB")->count, 16'000'000'000);
  EXPECT_EQ(parse_bytes(".5KiB")->count, 512);
  EXPECT_EQ(parse_bytes("9223372036854775807B")->count, kMax);
}

TEST(Units, FractionsOfAByteAreDropped) {
  EXPECT_EQ(parse_bytes("0.1KiB")->count, 102);
  EXPECT_EQ(parse_bytes("0.9999999999999999999999999999B")->count, 0);
}

TEST(Units, WhatIsNoNumberOfBytesIsRefusedWithAnExample) {
  for (const char* text :
       {"", "16", "GiB", "16G", "-1B", "1e3B", "1.2.3B", ".B", "16 GiB", "16gib"}) {
    const auto bytes = parse_bytes(text);
    ASSERT_FALSE(bytes) << text;
    EXPECT_NE(bytes.error().message.find("16GiB"), std::string::npos) << bytes.error().message;
  }
}

TEST(Units, ANumberWithoutItsUnitIsToldSo) {
  EXPECT_EQ(parse_bytes("0").error().message,
            "'0' has no unit; write one like 16GiB, 1.5MiB or 512B");
  EXPECT_EQ(parse_duration("1.5").error().message,
            "'1.5' has no unit; write one like 40us, 1.5ms or 2s");
}

TEST(Units, WhatDoesNotFitIsRefused) {
  for (const char* text : {"9223372036854775808B", "8388608TiB", "99999999999999999999999999B"}) {
    const auto bytes = parse_bytes(text);
    ASSERT_FALSE(bytes) << text;
    EXPECT_NE(bytes.error().message.find("too large"), std::string::npos);
  }
  EXPECT_EQ(parse_bytes("8388607TiB")->count, 8388607LL << 40);
}

TEST(Units, BytesAreWrittenExactly) {
  EXPECT_EQ(to_text(Bytes{0}), "0B");
  EXPECT_EQ(to_text(Bytes{1000}), "1000B");
  EXPECT_EQ(to_text(Bytes{1536 << 10}), "1536KiB");
  EXPECT_EQ(to_text(Bytes{1 << 20}), "1MiB");
  EXPECT_EQ(to_text(Bytes{3LL << 50}), "3072TiB");
  for (const std::int64_t count : {1LL, 1023LL, 1025LL, 1LL << 40, (1LL << 40) + 1}) {
    EXPECT_EQ(parse_bytes(to_text(Bytes{count}))->count, count);
  }
  EXPECT_EQ(parse_bytes(to_text(Bytes{kMax}))->count, kMax);
}

TEST(Units, DurationsAreReadAndWrittenExactly) {
  EXPECT_EQ(*parse_duration("40us"), microseconds(40));
  EXPECT_EQ(*parse_duration("0.1s"), Duration(100'000'000));
  EXPECT_EQ(to_text(Duration(1'234'567)), "1.234567ms");
  EXPECT_EQ(to_text(Duration(1'500)), "1.5us");
  EXPECT_EQ(to_text(Duration(0)), "0ns");
  EXPECT_EQ(to_text(Duration(1'000'000'001)), "1.000000001s");
  for (const std::int64_t count :
       std::initializer_list<std::int64_t>{1, 999, 1000, 1001, 60'000'000'001, kMax}) {
    EXPECT_EQ(parse_duration(to_text(Duration(count)))->count(), count);
  }
  EXPECT_FALSE(parse_duration("5h"));
}

TEST(Units, BandwidthsAreReadPerSecond) {
  EXPECT_EQ(parse_bandwidth("55.1GB/s")->bytes_per_second, 55.1e9);
  EXPECT_EQ(parse_bandwidth("1GiB/s")->bytes_per_second, 1 << 30);
  EXPECT_FALSE(parse_bandwidth("55GB"));
  for (const char* text : {"0B/s", "999B/s", "1KB/s", "55.1GB/s", "4.3TB/s", "1.000000001GB/s"}) {
    EXPECT_EQ(to_text(*parse_bandwidth(text)), text);
  }
  EXPECT_FALSE(parse_bandwidth("fast/s"));
}

TEST(Units, PeopleGetRoundedNumbers) {
  EXPECT_EQ(to_human(Bytes{0}), "0 B");
  EXPECT_EQ(to_human(Bytes{1536}), "1.5 KiB");
  EXPECT_EQ(to_human(Bytes{16LL << 30}), "16.0 GiB");
  EXPECT_EQ(to_human(Bytes{784 << 10}), "784 KiB");
  EXPECT_EQ(to_human(Duration(148'000)), "148 us");
  EXPECT_EQ(to_human(Duration(2'500'000)), "2.5 ms");
  EXPECT_EQ(to_human(Bandwidth{55.1e9}), "55.1 GB/s");
}

}  // namespace
}  // namespace ebb

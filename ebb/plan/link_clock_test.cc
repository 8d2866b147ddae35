#include "ebb/plan/link_clock.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

constexpr double kBytesPerNanosecond = 1e9;

// 1 byte a nanosecond each way, half of that while both are busy.
Link simple_link() {
  return {.to_host = {kBytesPerNanosecond},
          .to_device = {kBytesPerNanosecond},
          .to_host_both = {kBytesPerNanosecond / 2},
          .to_device_both = {kBytesPerNanosecond / 2}};
}

constexpr auto kOut = CopyDirection::kToHost;
constexpr auto kIn = CopyDirection::kToDevice;

TEST(LinkClock, AnEngineMakesItsCopiesOneAfterTheOther) {
  LinkClock clock(simple_link());
  const CopyId first = clock.add(kOut, Bytes{100}, 10ns);
  const CopyId second = clock.add(kOut, Bytes{50}, 20ns);
  const CopyId third = clock.add(kOut, Bytes{5}, 1000ns);
  EXPECT_EQ(clock.end_of(first), 110ns);
  EXPECT_EQ(clock.end_of(second), 160ns);
  EXPECT_EQ(clock.times_of(third).start, 1000ns);
  EXPECT_EQ(clock.end_of(third), 1005ns);
}

TEST(LinkClock, BothWaysAtOnceAreSlower) {
  LinkClock clock(simple_link());
  const CopyId out = clock.add(kOut, Bytes{100}, 0ns);
  const CopyId in = clock.add(kIn, Bytes{100}, 40ns);
  // Alone until 40; then 60 bytes are left of the one and 100 of the other, at half the speed: the
  // first ends at 40 + 120, when 40 bytes of the other are left, which is alone then.
  EXPECT_EQ(clock.end_of(out), 160ns);
  EXPECT_EQ(clock.end_of(in), 200ns);
}

TEST(LinkClock, ACopyHasALatencyAndIsNeverShorterThanTheShortest) {
  Link link = simple_link();
  link.latency = 7ns;
  link.shortest = 50ns;
  LinkClock clock(link);
  EXPECT_EQ(clock.end_of(clock.add(kOut, Bytes{1}, 0ns)), 50ns);
  EXPECT_EQ(clock.end_of(clock.add(kOut, Bytes{100}, 50ns)), 157ns);
}

TEST(LinkClock, ACopyWaitsForOthers) {
  LinkClock clock(simple_link());
  const CopyId out = clock.add(kOut, Bytes{100}, 0ns);
  const CopyId in = clock.add(kIn, Bytes{10}, 5ns, {out});
  EXPECT_EQ(clock.times_of(in).start, 100ns);
  EXPECT_EQ(clock.end_of(in), 110ns);
}

TEST(LinkClock, ToAskWhetherOneEndsByATimeLooksNoFurther) {
  LinkClock clock(simple_link());
  const CopyId out = clock.add(kOut, Bytes{100}, 0ns);
  EXPECT_FALSE(clock.ends_by(out, 60ns));
  const CopyId in = clock.add(kIn, Bytes{10}, 60ns);  // 10 bytes at half speed: until 80
  EXPECT_EQ(clock.end_of(in), 80ns);
  EXPECT_FALSE(clock.ends_by(out, 109ns));  // 60 bytes alone, 10 in 20 ns, 30 alone
  EXPECT_TRUE(clock.ends_by(out, 110ns));
}

}  // namespace
}  // namespace ebb

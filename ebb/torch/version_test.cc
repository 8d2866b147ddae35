#include "ebb/torch/version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebb::torch {
namespace {

using ::testing::HasSubstr;

TEST(TorchVersion, ThisProgramRunsWithTheLibtorchItWasBuiltWith) {
  EXPECT_EQ(running_with(), built_with());
  EXPECT_EQ(to_string(built_with()).substr(0, 5), "2.11.");
  EXPECT_TRUE(check_libtorch().has_value());
}

TEST(TorchVersion, ABugfixReleaseRunsWithTheOther) {
  EXPECT_TRUE(check_versions({2, 11, 0}, {2, 11, 3}).has_value());
  EXPECT_TRUE(check_versions({2, 11, 1}, {2, 11, 0}).has_value());
}

TEST(TorchVersion, AnotherMinorOrMajorVersionIsRefusedWithBothNamedAndTheRemedy) {
  for (const Version running : {Version{2, 10, 0}, Version{2, 12, 0}, Version{3, 11, 0}}) {
    const Status status = check_versions({2, 11, 0}, running);
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(status.error().message, HasSubstr("built with torch 2.11.0"));
    EXPECT_THAT(status.error().message, HasSubstr("runs with torch " + to_string(running)));
    EXPECT_THAT(status.error().message, HasSubstr("install torch 2.11"));
  }
}

}  // namespace
}  // namespace ebb::torch

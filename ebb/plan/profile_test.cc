#include "ebb/plan/profile.h"

#include <algorithm>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/base/file.h"
#include "ebb/graph/parse.h"

namespace ebb {
namespace {

using testing::HasSubstr;

constexpr const char* kText = R"({
 "version": 1,
 "device": "h200",
 "operations": [
  {"signature": "aten::relu(f32[8]) -> f32[8]", "seconds": 5.2e-06, "workspace": 0},
  {"signature": "my::op(f32[8]) {name = \"x\"} -> f32[8]", "seconds": 0.25, "workspace": 1048576}
 ]
}
)";

std::string error_of(const std::string& json) {
  const auto profile = parse_profile(json);
  EXPECT_FALSE(profile) << json;
  if (profile) return "";
  EXPECT_EQ(profile.error().kind, ErrorKind::kBadInput);
  return profile.error().message;
}

std::string with_operation(const std::string& operation) {
  return R"({"version": 1, "device": "d", "operations": [)" + operation + "]}";
}

TEST(Profile, IsFoundBySignature) {
  const Profile profile = parse_profile(kText).value();
  EXPECT_EQ(profile.device(), "h200");
  const ProfiledOperation* found = profile.find("my::op(f32[8]) {name = \"x\"} -> f32[8]");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->time, std::chrono::milliseconds(250));
  EXPECT_EQ(found->workspace, Bytes{1 << 20});
  EXPECT_EQ(profile.find("aten::relu(f32[8]) -> f32[8]")->time, Duration{5200});
  EXPECT_EQ(profile.find("aten::relu(f32[9]) -> f32[9]"), nullptr);
  EXPECT_EQ(Profile().find(""), nullptr);
}

TEST(Profile, IsWrittenAsItIsRead) {
  EXPECT_EQ(to_json(parse_profile(kText).value()), kText);
  const Profile empty = Profile::make("d", {}).value();
  EXPECT_EQ(parse_profile(to_json(empty)).value(), empty);
}

TEST(Profile, IsTheSameBytesWhateverTheOrder) {
  std::mt19937_64 random(7);
  std::vector<ProfiledOperation> operations;
  operations.reserve(200);
  for (int i = 0; i < 200; ++i) {
    operations.push_back({"op" + std::to_string(i),
                          Duration{static_cast<std::int64_t>(random() % 86'400'000'000'000)},
                          Bytes{static_cast<std::int64_t>(random() % 1'000'000'000'000'000)}});
  }
  const std::string text = to_json(Profile::make("d", operations).value());
  std::shuffle(operations.begin(), operations.end(), random);
  EXPECT_EQ(to_json(Profile::make("d", operations).value()), text);
  EXPECT_EQ(to_json(parse_profile(text).value()), text);
}

TEST(Profile, TheExampleInTheGuideIsRead) {
  const std::string guide = read_file(std::string(EBB_SOURCE_DIR) + "/docs/planning.md").value();
  const std::size_t begin = guide.find("{\n \"version\"");
  const std::string example = guide.substr(begin, guide.find("```", begin) - begin);
  EXPECT_EQ(to_json(parse_profile(example).value()), example);
}

TEST(Profile, SaysWhatIsWrong) {
  EXPECT_EQ(error_of("{}"), "'version' is missing: this is no profile");
  EXPECT_EQ(error_of(R"({"version": 2, "machine": "d"})"),
            "the profile has version 2; this Ebb reads version 1");
  EXPECT_EQ(error_of(R"({"version": "1"})"),
            "the profile has version \"1\"; this Ebb reads version 1");
  EXPECT_EQ(error_of(R"({"version": 1, "devise": "d"})"),
            "a profile has no key 'devise'; did you mean 'device'?");
  EXPECT_EQ(error_of(R"({"version": 1, "device": "d"})"), "'operations' is missing");
  EXPECT_EQ(error_of(R"({"version": 1, "device": 4, "operations": []})"),
            "'device' is not a text: 4");
  EXPECT_EQ(error_of(R"({"version": 1, "device": "d", "operations": {}})"),
            "'operations' is not a list: an object");
  EXPECT_EQ(error_of(with_operation("3")), "operation 1 of the profile is 3, not an object");
  EXPECT_EQ(error_of(with_operation(R"({"signature": "a", "seconds": 1})")),
            "operation 1 of the profile has no 'workspace'");
  EXPECT_EQ(error_of(with_operation(R"({"signature": "a", "second": 1, "workspace": 0})")),
            "operation 1 of the profile has no key 'second'; did you mean 'seconds'?");
  EXPECT_EQ(error_of(with_operation(R"({"signature": 1, "seconds": 1, "workspace": 0})")),
            "the signature of operation 1 of the profile is 1, not a text");
  EXPECT_EQ(error_of(with_operation(R"({"signature": "a", "seconds": 1, "workspace": 0},
                                       {"signature": "a", "seconds": 2, "workspace": 0})")),
            "the profile has 'a' twice");
}

TEST(Profile, RefusesNumbersThatCannotBe) {
  for (const char* seconds : {"-1", "-1e-12", "1e9", "\"1us\"", "null"}) {
    EXPECT_THAT(error_of(with_operation(R"({"signature": "a", "workspace": 0, "seconds": )" +
                                        std::string(seconds) + "}")),
                HasSubstr("seconds; from 0 to a day is possible"))
        << seconds;
  }
  for (const char* workspace :
       {"-1", "0.5", "1000000000000001", "18446744073709551615", "\"1MiB\""}) {
    EXPECT_THAT(error_of(with_operation(R"({"signature": "a", "seconds": 0, "workspace": )" +
                                        std::string(workspace) + "}")),
                HasSubstr("bytes; whole numbers from 0 to 10^15 are possible"))
        << workspace;
  }
  EXPECT_THAT(Profile::make("d", {{"a", Duration{-1}, Bytes{0}}}).error().message,
              HasSubstr("which cannot be"));
}

TEST(Profile, CountsHowMuchOfAGraphItCovers) {
  const auto graph = parse_valid(R"(graph g {
  input %x: f32[8]
  scalar $lr: f64
  %a: f32[8] = aten::relu(%x)
  %b: f32[8] = aten::relu(%a)
  %c: f32[8] = aten::sin(%b)
  %v: f32[4] ~ %c = my::half(%c)
  return %v
}
)");
  const ProfileMatch found = match(*graph, parse_profile(kText).value());
  EXPECT_EQ(found.operations, 3);  // not the view
  EXPECT_EQ(found.covered, 2);
}

}  // namespace
}  // namespace ebb

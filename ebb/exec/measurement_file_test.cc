#include "ebb/exec/measurement_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebb::exec {
namespace {

using testing::HasSubstr;

constexpr std::string_view kFile = R"({
 "version": 2,
 "environment": {
  "device": "cpu",
  "threads": "2"
 },
 "link": {"to_host":"50GB/s","to_device":"55GB/s","to_host_both":"40GB/s","to_device_both":"41GB/s","latency":"5us","shortest":"6us"},
 "operations": [
  {"signature": "a(f32[8]) -> f32[8]", "requests": [{"size": 32, "result": 0}, {"size": 64, "freed_after": 3}, {"size": 16, "kept": true}], "seconds": 5.2e-06},
  {"signature": "b() -> f32[8]", "requests": [], "otherwise": [{"result": 0, "strides": [2]}, {"result": 3, "strides": []}]},
  {"signature": "c() -> f32[8]", "seconds": 0.25}
 ]
}
)";

std::string with_operation(std::string_view operation) {
  return fmt::format(R"({{"version": 2, "environment": {{}}, "operations": [{}]}})", operation);
}

std::string error_of(std::string_view json) {
  const auto file = parse_measurements(json);
  return file ? "accepted" : file.error().message;
}

TEST(MeasurementFile, IsWrittenBackAsItWas) {
  const auto file = parse_measurements(kFile);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(to_json(*file), kFile);
}

TEST(MeasurementFile, SaysWhatWasAskedForAndHowLongItTook) {
  const MeasurementFile file = parse_measurements(kFile).value();
  EXPECT_EQ(file.environment.at("threads"), "2");
  EXPECT_EQ(file.link.value_or(Link{}).latency, std::chrono::microseconds(5));
  const Measured& a = file.operations.at("a(f32[8]) -> f32[8]");
  const Recipe recipe = a.recipe.value_or(Recipe{});
  ASSERT_EQ(recipe.requests.size(), 3U);
  EXPECT_EQ(recipe.requests[0].result, 0);
  EXPECT_EQ(recipe.requests[1].result, Request::kTemporary);
  EXPECT_EQ(recipe.requests[1].freed_after, 3U);
  EXPECT_EQ(recipe.requests[2].result, Request::kKept);
  EXPECT_EQ(a.time, Duration(5200));
  EXPECT_FALSE(a.is_new);
  const Recipe other = file.operations.at("b() -> f32[8]").recipe.value_or(Recipe{});
  ASSERT_EQ(other.otherwise.size(), 2U);
  EXPECT_THAT(other.otherwise[0].strides, testing::ElementsAre(2));
  EXPECT_EQ(other.otherwise[1].result, 3);
  EXPECT_FALSE(file.operations.at("b() -> f32[8]").time);
  EXPECT_FALSE(file.operations.at("c() -> f32[8]").recipe);
}

TEST(MeasurementFile, OfNothingIsAFileToo) {
  const std::string text = to_json(MeasurementFile{});
  const auto file = parse_measurements(text);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(to_json(*file), text);
}

TEST(MeasurementFile, IsRefusedInAnyPart) {
  for (std::size_t size = 0; size + 1 < kFile.size(); ++size) {
    EXPECT_FALSE(parse_measurements(kFile.substr(0, size))) << size;
  }
}

TEST(MeasurementFile, OfAnotherVersionIsRefusedWhateverElseIsInIt) {
  EXPECT_THAT(error_of(R"({"version": 3, "new": 1})"), HasSubstr("version 3"));
  EXPECT_THAT(error_of("{}"), HasSubstr("these are no measurements"));
}

TEST(MeasurementFile, WhatCannotBeIsRefused) {
  const auto error = [](std::string_view operation) { return error_of(with_operation(operation)); };
  EXPECT_EQ(error(R"({"signature": "a"})"), "accepted");
  EXPECT_THAT(error("1"), HasSubstr("not an object"));
  EXPECT_THAT(error("{}"), HasSubstr("no signature"));
  EXPECT_THAT(error(R"({"signature": "a", "sconds": 1})"), HasSubstr("did you mean 'seconds'"));
  EXPECT_THAT(error(R"({"signature": "a"}, {"signature": "a"})"), HasSubstr("one above"));
  for (const char* seconds : {"-1", "1e9", "\"1\"", "null"}) {
    EXPECT_THAT(error(fmt::format(R"({{"signature": "a", "seconds": {}}})", seconds)),
                HasSubstr("from 0 to a day"));
  }
  for (const char* request :
       {"1", "{}", R"({"size": 1})", R"({"size": 0, "result": 0})", R"({"size": 1, "result": -1})",
        R"({"size": 1, "result": 0.5})", R"({"size": 1e30, "result": 0})",
        R"({"size": 1, "kept": false})", R"({"size": 1, "freed_after": 0})",
        R"({"size": 1, "freed_after": 2})", R"({"size": 1, "result": 0, "kept": true})",
        R"({"size": 1, "result": 4294967296})"}) {
    EXPECT_THAT(error(fmt::format(R"({{"signature": "a", "requests": [{}]}})", request)),
                HasSubstr("request 1 of operation 1 is none"))
        << request;
  }
  EXPECT_THAT(error(R"({"signature": "a", "requests": [{"size": 1000000000000000, "result": 0},
                                               {"size": 1000000000000000, "result": 1}]})"),
              HasSubstr("more than there can be"));
  for (const char* otherwise :
       {"1", "[1]", "[{}]", R"([{"result": 0, "strides": 1}])",
        R"([{"result": -1, "strides": []}])", R"([{"result": 0, "strides": [-1]}])",
        R"([{"result": 0, "strides": [0.5]}])",
        R"([{"result": 0, "strides": []}, {"result": 0, "strides": []}])"}) {
    EXPECT_THAT(
        error(fmt::format(R"({{"signature": "a", "requests": [], "otherwise": {}}})", otherwise)),
        HasSubstr("'otherwise' of operation 1 is none"))
        << otherwise;
  }
  EXPECT_THAT(error(R"({"signature": "a", "otherwise": []})"), HasSubstr("no requests"));
  EXPECT_THAT(error_of(R"({"version": 2, "environment": {"a": 1}, "operations": []})"),
              HasSubstr("not a text"));
  EXPECT_THAT(error_of(R"({"version": 2, "environment": {}, "operations": {}})"),
              HasSubstr("not a list"));
  EXPECT_THAT(error_of(R"({"version": 2, "environment": {}, "link": 1, "operations": []})"),
              HasSubstr("not an object"));
}

}  // namespace
}  // namespace ebb::exec

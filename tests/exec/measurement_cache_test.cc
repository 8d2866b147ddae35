// Kernels are measured once for all processes of one environment, and files that are of no use do
// no harm.
#include "ebb/exec/measurement_cache.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/base/file.h"
#include "ebb/graph/parse.h"
#include "tests/exec/hash_kernels.h"

namespace ebb::exec {
namespace {

using testing::HasSubstr;

// Two signatures.
constexpr const char* kStep = R"(graph step {
  input %x: f32[64]
  %a: f32[64] = test::op(%x)
  %b: f32[64] = test::op(%a)
  %c: f32[64] = test::other(%a, %b)
  return %c
}
)";
constexpr const char* kOp = "test::op(f32[64]) -> f32[64]";

class MeasurementCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "ebb-cache-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    cache_ = Cache(name);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // As a process does it that makes a step ready; how many kernels it measured.
  int measure(const Environment& environment = {{"device", "test"}}) {
    HashKernels kernels;
    LoadedMeasurements known = load_measurements(cache_, environment);
    note_ = known.note;
    MeasuredOnce once(kernels, known.file.operations);
    EXPECT_TRUE(measure_all(step_, once));
    warmed_ = kernels.warmed();
    save_measurements(cache_, known.file);
    return kernels.measured();
  }

  [[nodiscard]] std::string path() const { return cache_.path_of(file_name({{"device", "test"}})); }
  void spoil(std::string_view text) { ASSERT_TRUE(write_file(path(), text)); }

  Graph step_ = parse_valid(kStep).value();
  Cache cache_;
  std::string folder_;
  std::string note_;
  int warmed_ = 0;
};

TEST_F(MeasurementCacheTest, TheSecondProcessMeasuresNothingAndWarmsUpEachKernelOnce) {
  EXPECT_EQ(measure(), 2);
  EXPECT_EQ(warmed_, 0);
  EXPECT_EQ(measure(), 0);
  EXPECT_EQ(warmed_, 2);
  EXPECT_EQ(note_, "");
}

// As several steps of one process do it, with and without a file.
TEST_F(MeasurementCacheTest, WhatTheProcessHasDoneItDoesNotDoAgain) {
  for (const bool has_file : {false, true}) {
    if (has_file) measure();
    HashKernels kernels;
    Measurements in_process;
    for (int step = 0; step < 2; ++step) {
      Measurements from_file = load_measurements(cache_, {{"device", "test"}}).file.operations;
      MeasuredOnce once(kernels, in_process);
      MeasuredOnce and_before(once, from_file);
      EXPECT_TRUE(measure_all(step_, and_before));
    }
    EXPECT_EQ(kernels.measured(), has_file ? 0 : 2);
    EXPECT_EQ(kernels.warmed(), has_file ? 2 : 0);
  }
}

TEST_F(MeasurementCacheTest, AnotherEnvironmentMeasuresForItself) {
  EXPECT_EQ(measure(), 2);
  EXPECT_EQ(measure({{"device", "test"}, {"threads", "3"}}), 2);
  EXPECT_EQ(measure({{"device", "test"}, {"threads", "3"}}), 0);
  EXPECT_EQ(measure(), 0);
}

TEST_F(MeasurementCacheTest, AFileThatIsNoneIsNotedOnceAndReplaced) {
  EXPECT_EQ(measure(), 2);
  const std::string right = read_file(path()).value();
  const std::string foreign = to_json(MeasurementFile{.environment = {{"device", "other"}}});
  for (const std::string& text : {std::string("{"), right.substr(0, right.size() / 2),
                                  std::string(), std::string(R"({"version": 3})"), foreign}) {
    spoil(text);
    EXPECT_EQ(measure(), 2) << text;
    EXPECT_THAT(note_, HasSubstr(path()));
    EXPECT_THAT(note_, HasSubstr("measured again"));
    EXPECT_EQ(note_.find('\n'), std::string::npos);
    EXPECT_EQ(measure(), 0) << text;
    EXPECT_EQ(note_, "");
    EXPECT_EQ(read_file(path()).value(), right);
  }
}

TEST_F(MeasurementCacheTest, ARecipeThatCannotBeTheNodesIsMeasuredAgain) {
  measure();
  MeasurementFile file = parse_measurements(read_file(path()).value()).value();
  const std::string right = to_json(file);
  const Recipe too_small{.requests = {{.size = Bytes{1}, .result = 0}}, .otherwise = {}};
  const Recipe of_another{.requests = {{.size = Bytes{256}, .result = 1}}, .otherwise = {}};
  const Recipe with_strides{.requests = {},
                            .otherwise = {{.result = 0, .strides = {1, 1, 1, 1, 1, 1}}}};
  const Recipe with_strides_of_another{.requests = {}, .otherwise = {{.result = 1, .strides = {}}}};
  const Recipe with_huge_strides{.requests = {},
                                 .otherwise = {{.result = 0, .strides = {1'000'000'000'000'000}}}};
  for (const Recipe& wrong :
       {too_small, of_another, with_strides, with_strides_of_another, with_huge_strides}) {
    file.operations.at(kOp).recipe = wrong;
    spoil(to_json(file));
    EXPECT_EQ(measure(), 1);
    EXPECT_EQ(read_file(path()).value(), right);
  }
}

TEST_F(MeasurementCacheTest, WhatOthersWroteMeanwhileStays) {
  const Environment environment{{"device", "test"}};
  LoadedMeasurements one = load_measurements(cache_, environment);
  LoadedMeasurements other = load_measurements(cache_, environment);
  one.file.operations["a"] = {.time = Duration(1), .is_new = true};
  one.file.operations["both"] = {.time = Duration(1), .is_new = true};
  other.file.operations["b"] = {.time = Duration(2), .is_new = true};
  other.file.operations["both"] = {.time = Duration(2), .is_new = true};
  save_measurements(cache_, one.file);
  save_measurements(cache_, other.file);
  const MeasurementFile all = load_measurements(cache_, environment).file;
  EXPECT_EQ(all.operations.size(), 3U);
  EXPECT_EQ(all.operations.at("a").time, Duration(1));
  EXPECT_EQ(all.operations.at("both").time, Duration(2));
}

TEST_F(MeasurementCacheTest, TwoProcessesAtOnceLoseNothing) {
  const auto save = [&](const std::string& prefix) {
    for (int i = 0; i < 30; ++i) {
      LoadedMeasurements known = load_measurements(cache_, {{"device", "test"}});
      EXPECT_EQ(known.note, "");
      known.file.operations[prefix + std::to_string(i)] = {.time = Duration(i), .is_new = true};
      save_measurements(cache_, known.file);
    }
  };
  const pid_t child = fork();
  if (child == 0) {
    save("child");
    _exit(HasFailure() ? 1 : 0);
  }
  save("parent");
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(load_measurements(cache_, {{"device", "test"}}).file.operations.size(), 60U);
}

TEST_F(MeasurementCacheTest, AFileThatGrowsTooLargeBeginsAnewWithWhatIsUsed) {
  const Environment environment{{"device", "test"}};
  MeasurementFile large{.environment = environment};
  for (int i = 0; i < 19'999; ++i) {
    large.operations["old" + std::to_string(i)] = {.time = Duration(i), .is_new = true};
  }
  save_measurements(cache_, large);
  EXPECT_EQ(measure(), 2) << "20,001 with these";
  const MeasurementFile small = load_measurements(cache_, environment).file;
  EXPECT_EQ(small.operations.size(), 2U);
  EXPECT_TRUE(small.operations.contains(kOp));
  EXPECT_EQ(measure(), 0);
}

TEST_F(MeasurementCacheTest, WithoutACacheEveryProcessMeasures) {
  cache_ = Cache();
  EXPECT_EQ(measure(), 2);
  EXPECT_EQ(measure(), 2);
}

}  // namespace
}  // namespace ebb::exec

#include "ebb/exec/cache.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/base/file.h"

namespace ebb::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPlan = "plan-0.plan";

class CacheTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "ebb-cache-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    fs::permissions(folder_, fs::perms::owner_all);
    fs::remove_all(folder_);
  }
  [[nodiscard]] std::size_t count() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

// Puts an environment variable back in the end.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) before_ = old;
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST_F(CacheTest, KeepsWhatWasWritten) {
  const Cache cache((folder_ / "deep" / "er").string());
  EXPECT_EQ(cache.read(kPlan), std::nullopt);
  cache.write(kPlan, "one");
  EXPECT_EQ(cache.read(kPlan), "one");
  cache.write(kPlan, "two");
  EXPECT_EQ(cache.read(kPlan), "two");
}

TEST_F(CacheTest, WithoutAFolderItKeepsNothing) {
  const Cache cache;
  cache.write(kPlan, "one");
  EXPECT_FALSE(cache.is_on());
  EXPECT_EQ(cache.read(kPlan), std::nullopt);
}

TEST_F(CacheTest, AFolderThatCannotBeWrittenIsNoError) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const Cache cache(folder_.string());
  cache.write(kPlan, "one");
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  cache.write(kPlan, "two");
  cache.update(kPlan, [](const auto&) { return "three"; });
  EXPECT_EQ(cache.read(kPlan), "one");
}

TEST_F(CacheTest, AFolderThatCannotBeIsNoError) {
  ASSERT_TRUE(write_file((folder_ / "file").string(), "in the way"));
  const Cache cache((folder_ / "file" / "cache").string());
  cache.write(kPlan, "one");
  cache.update(kPlan, [](const auto&) { return "two"; });
  EXPECT_EQ(cache.read(kPlan), std::nullopt);
}

TEST_F(CacheTest, WhatIsNoFileIsNotRead) {
  const Cache cache(folder_.string());
  fs::create_directory(folder_ / kPlan);
  EXPECT_EQ(cache.read(kPlan), std::nullopt);
}

TEST_F(CacheTest, RemovesWhatWasNotUsedForTheLongestTimeAndNobodyElsesFiles) {
  const Cache cache(folder_.string(), /*most_files=*/3);
  ASSERT_TRUE(write_file((folder_ / "thesis.txt").string(), "mine"));
  const auto age = [&](const char* name, int hours) {
    fs::last_write_time(folder_ / name,
                        fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  age("thesis.txt", 100);
  for (const char* name : {"plan-1.plan", "plan-2.plan", "measured-3.json"}) {
    cache.write(name, name);
  }
  age("plan-1.plan", 9);
  age("plan-2.plan", 8);
  age("measured-3.json", 7);
  EXPECT_EQ(cache.read("plan-1.plan"), "plan-1.plan");  // which is a use
  cache.write("plan-4.plan", "new");
  EXPECT_EQ(cache.read("plan-2.plan"), std::nullopt);
  EXPECT_EQ(cache.read("plan-1.plan"), "plan-1.plan");
  EXPECT_EQ(cache.read("measured-3.json"), "measured-3.json");
  EXPECT_EQ(cache.read("plan-4.plan"), "new");
  EXPECT_EQ(count(), 4U);
}

TEST_F(CacheTest, NoUpdateOfTwoProcessesIsLost) {
  constexpr int kTimes = 50;
  const auto append = [&](char letter) {
    const Cache cache(folder_.string());
    for (int i = 0; i < kTimes; ++i) {
      cache.update(kPlan, [&](const auto& before) { return before.value_or("") + letter; });
    }
  };
  const pid_t child = fork();
  if (child == 0) {
    append('a');
    _exit(0);
  }
  append('b');
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Cache(folder_.string()).read(kPlan).value_or("").size(), 2U * kTimes);
}

TEST(CacheFolder, IsWhereTheEnvironmentSays) {
  const Variable home("HOME", "/home/me");
  const Variable xdg("XDG_CACHE_HOME", nullptr);
  const Variable ours("EBB_CACHE", nullptr);
  EXPECT_EQ(default_cache_folder(), "/home/me/.cache/ebb");
  {
    const Variable relative("XDG_CACHE_HOME", "here");
    EXPECT_EQ(default_cache_folder(), "/home/me/.cache/ebb");
  }
  const Variable absolute("XDG_CACHE_HOME", "/var/me");
  EXPECT_EQ(default_cache_folder(), "/var/me/ebb");
  {
    const Variable there("EBB_CACHE", "/tmp/there");
    EXPECT_EQ(default_cache_folder(), "/tmp/there");
  }
  for (const char* word : {"off", "Off", "OFF"}) {
    const Variable off("EBB_CACHE", word);
    EXPECT_EQ(default_cache_folder(), "") << word;
  }
}

TEST(CacheFolder, IsNoneWithoutAHome) {
  const Variable home("HOME", nullptr);
  const Variable xdg("XDG_CACHE_HOME", nullptr);
  const Variable ours("EBB_CACHE", nullptr);
  EXPECT_EQ(default_cache_folder(), "");
}

}  // namespace
}  // namespace ebb::exec

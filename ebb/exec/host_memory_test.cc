#include "ebb/exec/host_memory.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace ebb::exec {
namespace {

// A folder with the files of a system and of a container.
class HostMemory : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "ebb-host-memory-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    write("meminfo", "MemTotal:   100 kB\nMemFree:    10 kB\nMemAvailable:   50 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  [[nodiscard]] std::int64_t available() const {
    return available_host_memory({.meminfo = folder_ / "meminfo", .cgroup = folder_}).count;
  }

  std::filesystem::path folder_;
};

TEST_F(HostMemory, IsWhatTheSystemSaysWhereThereIsNoContainer) {
  EXPECT_EQ(available(), 50 * 1024);
}

TEST_F(HostMemory, IsWhatTheContainerHasLeftWhereThatIsLess) {
  write("memory.max", "20480\n");
  write("memory.current", "4096\n");
  EXPECT_EQ(available(), 16384);
  write("memory.max", "max\n");
  EXPECT_EQ(available(), 50 * 1024);
  write("memory.max", "409600\n");
  EXPECT_EQ(available(), 50 * 1024) << "the system has less";
}

TEST_F(HostMemory, CountsWhatTheContainerKeepsOfFilesAsThere) {
  write("memory.max", "20480\n");
  write("memory.current", "20480\n");
  EXPECT_EQ(available(), 0);
  write("memory.stat", "anon 8192\nactive_file 4096\ninactive_file 8192\n");
  EXPECT_EQ(available(), 8192);
}

TEST_F(HostMemory, IsNeverLessThanNothing) {
  write("memory.max", "1000\n");
  write("memory.current", "4096\n");
  EXPECT_EQ(available(), 0);
}

TEST_F(HostMemory, IsAskedOfTheSystemWhereNoFileSaysIt) {
  write("meminfo", "MemAvailable: much\n");
  EXPECT_GT(available(), 0);
  EXPECT_GT(available_host_memory().count, 0);
}

}  // namespace
}  // namespace ebb::exec

#include "ebb/exec/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ebb/exec/arena.h"

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

// How many of its pages the system has made.
std::size_t pages_of(std::span<std::byte> memory) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> is_there((memory.size() + page - 1) / page);
  EXPECT_EQ(mincore(memory.data(), memory.size(), is_there.data()), 0);
  return static_cast<std::size_t>(std::count_if(is_there.begin(), is_there.end(),
                                                [](unsigned char c) { return (c & 1) != 0; }));
}

class Pages : public testing::Test {
 protected:
  static constexpr Bytes kPiece{std::int64_t{1} << 20};

  // Two pieces and a half, and not in huge pages, of which one touch makes many.
  void SetUp() override { madvise(memory_.data(), memory_.size(), MADV_NOHUGEPAGE); }

  Arena arena_ = Arena::make(Bytes{kPiece.count * 5 / 2}).value();
  std::span<std::byte> memory_{arena_.data(), static_cast<std::size_t>(arena_.size().count)};
  std::size_t all_ = memory_.size() / static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
};

TEST_F(Pages, AreAllMadeAndPiecesToldBeforeEachIs) {
  std::vector<std::string> told;
  std::vector<std::size_t> made;
  const auto tell = [&](std::size_t done, std::size_t total) {
    told.push_back(std::to_string(done) + " of " + std::to_string(total));
    made.push_back(pages_of(memory_));
  };
  touch_pages(memory_, tell, kPiece);
  EXPECT_EQ(told, (std::vector<std::string>{"0 of 3", "1 of 3", "2 of 3"}));
  EXPECT_EQ(made, (std::vector<std::size_t>{0, all_ * 2 / 5, all_ * 4 / 5}));
  EXPECT_EQ(pages_of(memory_), all_);
}

TEST_F(Pages, NeedNobodyToTell) {
  touch_pages(memory_, nullptr);
  EXPECT_EQ(pages_of(memory_), all_);
}

TEST_F(Pages, AreMadeNoMoreWhenWhoIsToldThrows) {
  const auto tell = [](std::size_t done, std::size_t /*total*/) {
    if (done == 1) throw std::runtime_error("enough");
  };
  EXPECT_THROW(touch_pages(memory_, tell, kPiece), std::runtime_error);
  EXPECT_EQ(pages_of(memory_), all_ * 2 / 5);
}

}  // namespace
}  // namespace ebb::exec

#include "ebb/exec/allocation.h"

#include <array>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/exec/executor.h"

namespace ebb::exec {
namespace {

std::string message_of(Replay& replay, std::size_t bytes) {
  try {
    replay.allocate(bytes);
  } catch (const UnexpectedRequest& unexpected) {
    return unexpected.what();
  }
  return "served";
}

TEST(Replay, ServesEachRequestAtItsPlace) {
  std::array<std::byte, 256> arena{};
  const std::array servings = {Serving{Bytes{64}, Bytes{128}}, Serving{Bytes{8}, Bytes{0}},
                               Serving{Bytes{100}, Serving::kElsewhere}};
  Replay replay;
  for (int step = 0; step < 2; ++step) {
    replay.start(arena.data(), servings);
    EXPECT_EQ(replay.allocate(64), arena.data() + 128);
    EXPECT_EQ(replay.allocate(5), arena.data()) << "less than planned";
    EXPECT_EQ(replay.allocate(100), nullptr) << "served elsewhere";
  }
}

TEST(Replay, RefusesARequestThatIsTooLargeOrOneTooMany) {
  std::array<std::byte, 256> arena{};
  const std::array servings = {Serving{Bytes{64}, Bytes{128}}, Serving{Bytes{1024}, Bytes{0}}};
  Replay replay;
  replay.start(arena.data(), servings);
  EXPECT_EQ(message_of(replay, 64), "served");
  EXPECT_EQ(message_of(replay, 1025),
            "it asked for 1025B in request 2 of 2, planned were 1KiB: what it needs depends on "
            "its data, or the number of threads or a library setting changed since it was compiled "
            "(then compile again)");
  EXPECT_EQ(message_of(replay, 1024), "served") << "after a refusal the request is still to come";
  EXPECT_EQ(message_of(replay, 4096),
            "it asked for 4KiB in request 3, and 2 were planned: what it needs depends on "
            "its data, or the number of threads or a library setting changed since it was compiled "
            "(then compile again)");
}

TEST(SourceScope, InstallsForItsThreadAndPutsBackWhatWasThere) {
  Replay outer;
  Replay inner;
  EXPECT_EQ(current_source(), nullptr);
  {
    const SourceScope outer_scope(&outer);
    EXPECT_EQ(current_source(), &outer);
    std::thread([] { EXPECT_EQ(current_source(), nullptr); }).join();
    try {
      const SourceScope inner_scope(&inner);
      EXPECT_EQ(current_source(), &inner);
      throw UnexpectedRequest("out");
    } catch (const UnexpectedRequest&) {
      EXPECT_EQ(current_source(), &outer);
    }
    {
      const SourceScope none(nullptr);
      EXPECT_EQ(current_source(), nullptr);
    }
  }
  EXPECT_EQ(current_source(), nullptr);
}

TEST(Arena, IsZeroedAlignedAndWritable) {
  const auto arena = Arena::make(Bytes{100'000});
  ASSERT_TRUE(arena);
  EXPECT_EQ(arena->size(), Bytes{100'000});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena->data()) % 4096, 0U);
  for (std::size_t i = 0; i < 100'000; ++i) ASSERT_EQ(arena->data()[i], std::byte{0});
  arena->data()[99'999] = std::byte{1};
  EXPECT_NE(Arena::make(Bytes{0})->data(), nullptr);
}

TEST(Arena, OfMoreThanTheMachineHasIsRefused) {
  const auto arena = Arena::make(Bytes{std::int64_t{1} << 60U});
  ASSERT_FALSE(arena);
  EXPECT_EQ(arena.error().kind, ErrorKind::kInfeasible);
  EXPECT_THAT(arena.error().message,
              testing::StartsWith("1048576 TiB of host memory cannot be had: the machine has "));
}

}  // namespace
}  // namespace ebb::exec

// What is put into lanes, and in which order; whatever way a step ends, its lanes end too, and what
// they say then is said.
#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ebb/base/check.h"
#include "ebb/exec/executor.h"
#include "ebb/graph/parse.h"
#include "tests/exec/compiled.h"
#include "tests/exec/hash_kernels.h"
#include "tests/exec/runnable_graph.h"
#include "tests/meaning/random_decisions.h"
#include "tests/meaning/random_graph.h"

namespace ebb::exec {
namespace {

// Everything is done at once by the caller.
class PlainLanes final : public Lanes {
 public:
  bool is_begun = false;
  Status at_end;                       // what the next end says
  std::size_t fails_after = SIZE_MAX;  // so many instructions that were put in
  int dropped = 0;
  std::vector<std::uint32_t> put;       // instructions, as they came
  std::vector<std::uint32_t> too_soon;  // who was waited for before it was put in

  void begin(std::size_t /*instructions*/, bool /*is_timed*/) override {
    is_begun = true;
    put.clear();
  }
  void wait(Lane /*lane*/, std::uint32_t instruction) override {
    if (std::find(put.begin(), put.end(), instruction) == put.end())
      too_soon.push_back(instruction);
  }
  void start(Lane /*lane*/, std::uint32_t instruction) override { put.push_back(instruction); }
  void copy(Lane /*lane*/, std::byte* to, const std::byte* from, std::size_t size) override {
    std::memcpy(to, from, size);
  }
  void finish(Lane /*lane*/, std::uint32_t /*instruction*/) override {}
  [[nodiscard]] bool has_failed() const override { return put.size() > fails_after; }
  void drop_next() override { ++dropped; }
  Status end() override {
    is_begun = false;
    return std::exchange(at_end, Status());
  }
  Status settle() override { return {}; }
  Result<std::vector<Interval>> times() override { return std::vector<Interval>(); }
};

class ExecutorLanes : public testing::Test {
 protected:
  Status run(double bad, const Executor::Interrupted& interrupted = nullptr) {
    Scalars scalars(graph_);
    scalars.set(graph_.find_scalar("bad"), bad);
    return executor_.run(scalars, interrupted);
  }

  Graph graph_ = parse_valid(R"(graph step {
  input %x: f32[4]
  param %w: f32[4]
  scalar $bad: f64
  %a: f32[4] = test::bug(%x) {when = $bad}
  %w.1: f32[4] ~ %w = my::add_(%w!, %a)
  return %a
}
)")
                     .value();
  HashKernels kernels_;
  Program program_ = lower(graph_, *measure_all(graph_, kernels_)).value();
  Arena arena_ = Arena::make(program_.arena_size).value();
  Arena host_ = Arena::make(program_.host_size).value();
  PlainLanes lanes_;
  Executor executor_ = Executor::make(graph_, program_, kernels_, {arena_, host_, lanes_}).value();
};

TEST_F(ExecutorLanes, EndWhenABugOfOursComesThrough) {
  EXPECT_THROW(ASSERT_TRUE(run(1)), InternalError);
  EXPECT_FALSE(lanes_.is_begun);
  EXPECT_TRUE(run(0));
}

TEST_F(ExecutorLanes, EndWhenTheCallerThrows) {
  const auto interrupted = []() -> bool { throw std::runtime_error("no more"); };
  EXPECT_THROW(ASSERT_TRUE(run(0, interrupted)), std::runtime_error);
  EXPECT_FALSE(lanes_.is_begun);
}

TEST_F(ExecutorLanes, ThatFailAtTheEndLeaveAStateThatIsToBeLoadedAgain) {
  lanes_.at_end = fail(ErrorKind::kBadInput, "the device is gone");
  const Status status = run(0);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            "the device is gone; 1 of 1 updates of the state had been done, %w first: load it "
            "again before the next step");
  EXPECT_FALSE(executor_.torn().is_whole());
  ASSERT_TRUE(run(0));
  EXPECT_TRUE(executor_.torn().is_whole());
}

TEST_F(ExecutorLanes, ThatFailAtTheEndDoNotHideWhatFailedBefore) {
  lanes_.at_end = fail(ErrorKind::kBadInput, "the device is gone");
  const Status status = run(0, [] { return true; });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "interrupted before 'a'; the state is as before the step");
}

TEST_F(ExecutorLanes, ThatFailOnTheWayGetNoMoreKernels) {
  lanes_.fails_after = 1;
  lanes_.at_end = fail(ErrorKind::kBadInput, "there are no more events");
  const Status status = run(0);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "there are no more events; the state is as before the step");
  EXPECT_EQ(lanes_.put.size(), 2U);
  EXPECT_TRUE(executor_.torn().is_whole());
}

TEST_F(ExecutorLanes, KeepNoHalfOfAStep) {
  EXPECT_FALSE(run(0, [] { return true; }));
  EXPECT_EQ(lanes_.dropped, 1);
  EXPECT_THROW(ASSERT_TRUE(run(1)), InternalError);
  EXPECT_EQ(lanes_.dropped, 2);
  EXPECT_TRUE(run(0));
  EXPECT_EQ(lanes_.dropped, 2);
}

// Puts a step into plain lanes.
void put_into_lanes(PlainLanes& lanes, const Graph& graph, const Program& program,
                    HashKernels& kernels) {
  const Arena arena = Arena::make(program.arena_size).value();
  const Arena host = Arena::make(program.host_size).value();
  auto executor = Executor::make(graph, program, kernels, {arena, host, lanes}).value();
  Scalars scalars(graph);
  EXPECT_TRUE(executor.run(scalars));
}

TEST(PutIntoLanes, CopiesComeBeforeKernelsThatTheyDoNotWaitFor) {
  HashKernels kernels;
  const Graph graph = parse_valid(R"(graph step {
  input %x: f32[4]
  %a: f32[4] = test::op(%x)
  %b: f32[4] = test::op(%a)
  %a.host: f32[4] @host = ebb::swap_out(%a)
  %c: f32[4] = test::op(%b)
  %x.host: f32[4] @host = ebb::swap_out(%x)
  %d: f32[4] = test::op(%c)
  %a.back: f32[4] = ebb::swap_in(%a.host) after c
  %x.back: f32[4] = ebb::swap_in(%x.host) after d
  %e: f32[4] = test::op(%d, %a.back, %x.back)
  return %e
}
)")
                          .value();
  const Program program = lower(graph, *measure_all(graph, kernels)).value();
  std::string order;
  PlainLanes lanes;
  put_into_lanes(lanes, graph, program, kernels);
  for (const std::uint32_t i : lanes.put) {
    order += fmt::format("{} ", graph.name(program.instructions[i].node));
  }
  // %x could leave at once, but not before %a: their lane keeps the order of the program. %a.back
  // waits for nothing below its trigger, 'c'.
  EXPECT_EQ(order, "a a.host x.host b c a.back d x.back e ");
}

TEST(PutIntoLanes, AllComesAfterWhatItWaitsForAndWhatIsBeforeItInItsLane) {
  HashKernels kernels;
  std::size_t moved = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Graph original = with_shuffled_lines(runnable_graph(seed), seed);
    const Compiled compiled = compile(rewritten_at_random(original, seed, 30), kernels, {});
    PlainLanes lanes;
    put_into_lanes(lanes, compiled.graph, compiled.program, kernels);
    EXPECT_TRUE(lanes.too_soon.empty()) << "seed " << seed;
    ASSERT_EQ(lanes.put.size(), compiled.program.instructions.size());
    std::array<std::vector<std::uint32_t>, kLaneCount> by_lane;
    for (const std::uint32_t i : lanes.put) {
      by_lane[static_cast<std::size_t>(compiled.program.instructions[i].lane)].push_back(i);
    }
    for (const auto& lane : by_lane) {
      EXPECT_TRUE(std::is_sorted(lane.begin(), lane.end())) << "seed " << seed;
    }
    if (!std::is_sorted(lanes.put.begin(), lanes.put.end())) ++moved;
  }
  EXPECT_GT(moved, 20U);
}

}  // namespace
}  // namespace ebb::exec

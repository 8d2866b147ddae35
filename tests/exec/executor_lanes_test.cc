// Whatever way a step ends, its lanes end too, and what they say then is said.
#include <cstring>
#include <stdexcept>
#include <utility>

#include <gtest/gtest.h>

#include "ebb/base/check.h"
#include "ebb/exec/executor.h"
#include "ebb/graph/parse.h"
#include "tests/exec/hash_kernels.h"

namespace ebb::exec {
namespace {

// Everything is done at once by the caller.
class PlainLanes final : public Lanes {
 public:
  bool is_begun = false;
  Status at_end;  // what the next end says

  void begin(std::size_t /*instructions*/, bool /*is_timed*/) override { is_begun = true; }
  void wait(Lane /*lane*/, std::uint32_t /*instruction*/) override {}
  void start(Lane /*lane*/, std::uint32_t /*instruction*/) override {}
  void copy(Lane /*lane*/, std::byte* to, const std::byte* from, std::size_t size) override {
    std::memcpy(to, from, size);
  }
  void finish(Lane /*lane*/, std::uint32_t /*instruction*/) override {}
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

}  // namespace
}  // namespace ebb::exec

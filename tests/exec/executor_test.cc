// What an executor says and leaves behind when a step does not go well, and what it never does.
#include "ebb/exec/executor.h"

#include <cstring>
#include <memory>

#include <gtest/gtest.h>

#include "ebb/exec/thread_lanes.h"
#include "ebb/graph/parse.h"
#include "tests/exec/hash_kernels.h"
#include "tests/exec/hash_op.h"

namespace ebb::exec {
namespace {

// A step with two updates of the state; `op` stands between them and may misbehave.
std::string step_with(const std::string& op) {
  return R"(graph step {
  input %x: f32[4]
  param %w: f32[4]
  param %m: f32[2]
  scalar $bad: f64
  %a: f32[4] = my::op(%x, %w)
  %w.1: f32[4] ~ %w = my::add_(%w!, %a)
  )" + op +
         R"(
  %m.1: f32[2] ~ %m = my::add_(%m!, %w.1)
  return %a
}
)";
}

class Machine {
 public:
  explicit Machine(const std::string& text) : graph_(parse_valid(text).value()) {
    const auto recipes = measure_all(graph_, kernels_);
    program_ = lower(graph_, *recipes).value();
    arena_ = std::make_unique<Arena>(Arena::make(program_.arena_size).value());
    host_ = std::make_unique<Arena>(Arena::make(program_.host_size).value());
    executor_ = std::make_unique<Executor>(
        Executor::make(graph_, program_, kernels_, {*arena_, *host_, lanes_}).value());
  }

  Status run(double bad, const Executor::Interrupted& interrupted = nullptr,
             bool is_timed = false) {
    const std::string input = "sixteen bytes ..";
    std::memcpy(place("x"), input.data(), input.size());
    Scalars scalars(graph_);
    scalars.set(graph_.find_scalar("bad"), bad);
    return executor_->run(scalars, interrupted, is_timed);
  }

  [[nodiscard]] std::byte* place(const char* name) const {
    return executor_->place(graph_.find_tensor(name));
  }
  [[nodiscard]] std::string bytes(const char* name) const {
    return {reinterpret_cast<const char*>(place(name)),
            byte_count(graph_, graph_.find_tensor(name))};
  }
  [[nodiscard]] std::vector<Interval> times() { return lanes_.times().value(); }
  [[nodiscard]] const Torn& torn() const { return executor_->torn(); }
  [[nodiscard]] std::string_view first_torn() const { return graph_.name(torn().first); }

 private:
  Graph graph_;
  HashKernels kernels_;
  Program program_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Arena> host_;
  ThreadLanes lanes_;
  std::unique_ptr<Executor> executor_;
};

TEST(Executor, ChangesTheStateFromStepToStep) {
  Machine machine(step_with("%b: f32[4] = test::fail(%x) {when = $bad}"));
  const std::string zeros = machine.bytes("w");
  ASSERT_TRUE(machine.run(0));
  const std::string once = machine.bytes("w");
  ASSERT_TRUE(machine.run(0));
  EXPECT_NE(once, zeros);
  EXPECT_NE(machine.bytes("w"), once);
  EXPECT_TRUE(machine.torn().is_whole());
}

TEST(Executor, TimesEveryInstructionUpToAnError) {
  Machine machine(step_with("%b: f32[4] = test::fail(%x) {when = $bad}"));
  ASSERT_TRUE(machine.run(0, nullptr, /*is_timed=*/true));
  const std::vector<Interval> times = machine.times();
  ASSERT_EQ(times.size(), 4U);
  for (std::size_t i = 1; i < times.size(); ++i) {
    EXPECT_LE(times[i - 1].start, times[i - 1].end);
    EXPECT_LE(times[i - 1].end, times[i].start);
  }
  ASSERT_FALSE(machine.run(1, nullptr, /*is_timed=*/true));
  EXPECT_EQ(machine.times()[3].end, Duration{}) << "it did not run";
  ASSERT_TRUE(machine.run(0));
  EXPECT_TRUE(machine.times().empty());
}

TEST(Executor, SaysWhatFailedWhereAndHowFarTheStateIs) {
  Machine machine(step_with(
      R"(%b: f32[4] = test::fail(%x, [%x, %w.1], none) {when = $bad, ebb.at = "model.py:12"})"));
  const Status status = machine.run(1);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kInfeasible) << "the kernel's own";
  EXPECT_EQ(status.error().message,
            "the kernel does not feel well; 1 of 2 updates of the state had been done, %w first: "
            "load it again before the next step; in test::fail, from model.py:12: '%b: f32[4] = "
            "test::fail(%x, [%x, %w.1], none) {when = $bad, ebb.at = \"model.py:12\"}', on %x: "
            "f32[4], %w.1: f32[4]");
  EXPECT_EQ(machine.torn().updates_done, 1U);
  EXPECT_EQ(machine.torn().updates_in_doubt, 0U);
  EXPECT_EQ(machine.torn().updates_in_all, 2U);
  EXPECT_EQ(machine.first_torn(), "w");
}

TEST(Executor, CountsAnUpdateThatFailedAsInDoubt) {
  Machine machine(R"(graph step {
  input %x: f32[4]
  param %w: f32[4]
  scalar $bad: f64
  %w.1: f32[4] ~ %w = test::fail(%w!, %x) {when = $bad}
  return
}
)");
  const Status status = machine.run(1);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("; 0 of 1 updates of the state had been done and 1 begun, "
                                        "%w first: load it again before the next step; in "),
            std::string::npos)
      << status.error().message;
  EXPECT_FALSE(machine.torn().is_whole());
  EXPECT_EQ(machine.torn().updates_in_doubt, 1U);
  EXPECT_NE(machine.bytes("w"), std::string(16, '\0')) << "half of it was written";
}

TEST(Executor, SaysThatTheStateIsWholeWhenItIs) {
  Machine machine(R"(graph step {
  input %x: f32[4]
  param %w: f32[4]
  scalar $bad: f64
  %a: f32[4] = test::throw(%x) {when = $bad}
  %w.1: f32[4] ~ %w = my::add_(%w!, %a)
  return
}
)");
  const Status status = machine.run(1);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kBadInput);
  EXPECT_EQ(status.error().message,
            "the kernel blew up; the state is as before the step; in test::throw: '%a: f32[4] = "
            "test::throw(%x) {when = $bad}', on %x: f32[4]");
  EXPECT_TRUE(machine.torn().is_whole());
  EXPECT_EQ(machine.bytes("w"), std::string(16, '\0'));
}

TEST(Executor, RunsTheNextStepAfterOneThatFailed) {
  const std::string text = step_with("%b: f32[4] = test::throw(%x, %w.1) {when = $bad}");
  Machine machine(text);
  Machine untroubled(text);
  ASSERT_FALSE(machine.run(1));
  EXPECT_EQ(current_source(), nullptr);
  std::memset(machine.place("w"), 0, 16);  // the state is loaded again
  ASSERT_TRUE(machine.run(0));
  ASSERT_TRUE(untroubled.run(0));
  for (const char* name : {"w", "m", "a"}) EXPECT_EQ(machine.bytes(name), untroubled.bytes(name));
  EXPECT_TRUE(machine.torn().is_whole());
}

TEST(Executor, LetsOurOwnBugsThrough) {
  Machine machine(step_with("%b: f32[4] = test::bug(%x) {when = $bad}"));
  EXPECT_THROW(ASSERT_TRUE(machine.run(1)), InternalError);
  EXPECT_EQ(machine.torn().updates_done, 1U);
  EXPECT_EQ(current_source(), nullptr);
}

TEST(Executor, RefusesARequestLargerThanPlannedByName) {
  Machine machine(step_with("%b: f32[3], %c: f32[5] = test::greedy(%x) {when = $bad}"));
  ASSERT_TRUE(machine.run(0));
  const Status status = machine.run(1);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kRefused);
  EXPECT_TRUE(status.error().message.starts_with("it asked for ")) << status.error().message;
  EXPECT_NE(status.error().message.find(" in request 2 of 2, planned were "), std::string::npos);
  EXPECT_NE(status.error().message.find("(then compile again); 1 of 2 updates"), std::string::npos);
  EXPECT_NE(status.error().message.find("in test::greedy: '%b: f32[3], %c: f32[5] = "),
            std::string::npos);
}

TEST(Executor, RefusesARequestTooMany) {
  Machine machine(step_with("%b: f32[3] = test::again(%x) {when = $bad}"));
  const Status status = machine.run(1);
  ASSERT_FALSE(status);
  EXPECT_TRUE(status.error().message.starts_with(
      "it asked for 16B in request 2, and 1 were planned: what it needs depends on its data, or "
      "the "
      "number of threads or a library setting changed since it was compiled (then compile again); "
      "1 of 2 updates"))
      << status.error().message;
}

TEST(Executor, StopsWhenInterruptedBeforeTheFirstUpdate) {
  Machine machine(step_with("%b: f32[4] = test::fail(%x) {when = $bad}"));
  int asked = 0;
  const Status status = machine.run(0, [&] { return ++asked == 2; });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kRefused);
  EXPECT_EQ(status.error().message, "interrupted before 'w.1'; the state is as before the step");
  EXPECT_TRUE(machine.torn().is_whole());
  EXPECT_EQ(machine.bytes("w"), std::string(16, '\0'));
  ASSERT_TRUE(machine.run(0));
}

// Python's handlers of signals run then.
TEST(Executor, WhoeverIsAskedAllocatesOutsideOfTheArena) {
  Machine machine(step_with("%b: f32[4] = test::fail(%x) {when = $bad}"));
  int asked = 0;
  ASSERT_TRUE(machine.run(0, [&] {
    ++asked;
    EXPECT_EQ(current_source(), nullptr);
    return false;
  }));
  EXPECT_EQ(asked, 2);
}

TEST(Executor, FinishesTheStepWhenInterruptedAfterTheFirstUpdate) {
  Machine machine(step_with("%b: f32[4] = test::fail(%x) {when = $bad}"));
  int asked = 0;
  ASSERT_TRUE(machine.run(0, [&] { return ++asked > 2; }));
  EXPECT_EQ(asked, 2) << "before 'a' and before 'w.1', and then no more";
  EXPECT_NE(machine.bytes("m"), std::string(8, '\0'));
}

TEST(Executor, ReportsHostArithmeticThatFails) {
  Machine machine(R"(graph step {
  input %x: f32[4]
  scalar $bad: f64
  $inverse: f64 = scalar::truediv(1, $bad)
  %a: f32[4] = my::op(%x) {scale = $inverse}
  return %a
}
)");
  ASSERT_TRUE(machine.run(2));
  const Status status = machine.run(0);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            "division by zero; the state is as before the step; in scalar::truediv: '$inverse: f64 "
            "= scalar::truediv(1, $bad)'");
}

TEST(Executor, GivesScalarsTheTypeTheyAreDeclaredWith) {
  const auto graph = parse_valid(R"(graph g {
  scalar $n: i64
  scalar $lr: f64
  $m: i64 = scalar::floordiv($n, 2)
  $half: f64 = scalar::mul($lr, 1)
  return
}
)");
  ASSERT_TRUE(graph);
  HashKernels kernels;
  const auto program = lower(*graph, std::vector<Recipe>(graph->node_count()));
  ASSERT_TRUE(program);
  const auto arena = Arena::make(program->arena_size);
  const auto host = Arena::make(program->host_size);
  ThreadLanes lanes;
  auto executor = Executor::make(*graph, *program, kernels, {*arena, *host, lanes});
  ASSERT_TRUE(executor);
  Scalars scalars(*graph);
  scalars.set(graph->find_scalar("n"), 7.0);
  scalars.set(graph->find_scalar("lr"), std::int64_t{3});
  ASSERT_TRUE(executor->run(scalars));
  EXPECT_EQ(scalars[graph->find_scalar("m")], Number(std::int64_t{3}));
  EXPECT_EQ(scalars[graph->find_scalar("half")], Number(3.0));
  scalars.set(graph->find_scalar("n"), 7.5);
  const Status status = executor->run(scalars);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(status.error().message, "$n: 7.5 is no i64");
}

TEST(Executor, RefusesAnArenaThatIsTooSmall) {
  const auto graph = parse_valid("graph g {\n  input %x: f32[1024]\n  return\n}\n");
  HashKernels kernels;
  const auto program = lower(*graph, std::vector<Recipe>(graph->node_count()));
  const auto arena = Arena::make(Bytes{1024});
  const auto host = Arena::make(Bytes{});
  ThreadLanes lanes;
  const auto executor = Executor::make(*graph, *program, kernels, {*arena, *host, lanes});
  ASSERT_FALSE(executor);
  EXPECT_EQ(executor.error().message, "the program needs an arena of 4KiB, and this one has 1KiB");
}

const char* const kSwapped = R"(graph g {
  input %x: f32[8] strides [3]
  %a: f32[8] strides [3] = my::op(%x)
  %a.host: f32[8] strides [3] @host = ebb::swap_out(%a)
  %b: f32[8] = my::op(%x)
  %a.back: f32[8] strides [3] = ebb::swap_in(%a.host)
  return %a.host, %a.back, %b
}
)";

TEST(Executor, RefusesAHostSlabThatIsTooSmall) {
  const auto graph = parse_valid(kSwapped);
  ASSERT_TRUE(graph) << graph.error().message;
  HashKernels kernels;
  const auto program = lower(*graph, *measure_all(*graph, kernels));
  ASSERT_TRUE(program) << program.error().message;
  const auto arena = Arena::make(program->arena_size);
  const auto host = Arena::make(Bytes{64});
  ThreadLanes lanes;
  const auto executor = Executor::make(*graph, *program, kernels, {*arena, *host, lanes});
  ASSERT_FALSE(executor);
  EXPECT_EQ(executor.error().message,
            "the program needs a host slab of 128B, and this one has 64B");
}

TEST(Executor, CopiesEveryByteThatATensorSpans) {
  const auto graph = parse_valid(kSwapped);
  HashKernels kernels;
  const auto program = lower(*graph, *measure_all(*graph, kernels));
  const auto arena = Arena::make(program->arena_size);
  const auto host = Arena::make(program->host_size);
  ThreadLanes lanes;
  auto executor = Executor::make(*graph, *program, kernels, {*arena, *host, lanes});
  ASSERT_TRUE(executor) << executor.error().message;
  Scalars scalars(*graph);
  ASSERT_TRUE(executor->run(scalars));
  const auto bytes = [&](const char* name) {
    const TensorId tensor = graph->find_tensor(name);
    return std::string(reinterpret_cast<const char*>(executor->place(tensor)),
                       byte_count(*graph, tensor));
  };
  const std::byte* place = executor->place(graph->find_tensor("a.host"));
  EXPECT_TRUE(host->data() <= place && place + 88 <= host->data() + host->size().count);
  EXPECT_EQ(bytes("a.host").size(), 88U) << "of 8 elements, 12 bytes from one to the next";
  EXPECT_EQ(bytes("a.back"), bytes("a.host"));
  EXPECT_NE(bytes("a.back"), std::string(88, '\0'));
}

TEST(Executor, SaysWhatCannotBeBound) {
  const auto graph = parse_valid(R"(graph g {
  input %x: f32[4]
  %a: f32[4] = test::unbound(%x) {ebb.at = "model.py:3"}
  return %a
}
)");
  HashKernels kernels;
  const auto recipes = measure_all(*graph, kernels);
  const auto program = lower(*graph, *recipes);
  const auto arena = Arena::make(program->arena_size);
  const auto host = Arena::make(program->host_size);
  ThreadLanes lanes;
  const auto executor = Executor::make(*graph, *program, kernels, {*arena, *host, lanes});
  ASSERT_FALSE(executor);
  EXPECT_EQ(executor.error().message,
            "test::unbound cannot be bound; when preparing test::unbound, from model.py:3: '%a: "
            "f32[4] = test::unbound(%x) {ebb.at = \"model.py:3\"}', on %x: f32[4]");
}

TEST(MeasureAll, DoesNotAskTheFrameworkAboutCopies) {
  const auto graph = parse_valid(kSwapped);
  HashKernels kernels;
  const auto recipes = measure_all(*graph, kernels);
  ASSERT_TRUE(recipes);
  EXPECT_EQ(kernels.measured(), 2) << "%a and %b";
  EXPECT_TRUE((*recipes)[graph->find_node("a.host").index()].requests.empty());
}

TEST(MeasureAll, RefusesWhatNoProgramRunsBeforeItMeasuresAnything) {
  const auto graph = parse_valid(R"(graph g {
  input %x: f32[4]
  %a: f32[4] = my::op(%x)
  %b: bf16[4] = ebb::encode(%a) {codec = "bf16"}
  return %b
}
)");
  HashKernels kernels;
  const auto recipes = measure_all(*graph, kernels);
  ASSERT_FALSE(recipes);
  EXPECT_EQ(recipes.error().message,
            "'%b: bf16[4] = ebb::encode(%a) {codec = \"bf16\"}' needs a kernel of a codec, and "
            "there are no kernels for codecs yet; swap without one");
  EXPECT_EQ(kernels.measured(), 0);
}

TEST(MeasureAll, MeasuresEachSignatureOnceAndTellsHowFarItIs) {
  const auto graph = parse_valid(R"(graph g {
  input %x: f32[4]
  input %y: f32[8]
  scalar $p: f64
  %a: f32[4] = my::op(%x)
  %b: f32[4] = my::op(%a)
  %v: f32[2] ~ %b = my::view(%b)
  %c: f32[8] = my::op(%y)
  $q: f64 = scalar::neg($p)
  %d: f32[4] = my::op(%v) {k = $q}
  return %d
}
)");
  ASSERT_TRUE(graph);
  HashKernels kernels;
  std::vector<std::pair<std::size_t, std::size_t>> calls;
  const auto recipes = measure_all(*graph, kernels, [&](std::size_t done, std::size_t total) {
    calls.emplace_back(done, total);
  });
  ASSERT_TRUE(recipes);
  EXPECT_EQ(kernels.measured(), 3);
  EXPECT_EQ(calls, (std::vector<std::pair<std::size_t, std::size_t>>{{1, 3}, {2, 3}, {3, 3}}));
  ASSERT_EQ(recipes->size(), graph->node_count());
  const auto count = [&](const char* name) {
    return (*recipes)[graph->find_node(name).index()].requests.size();
  };
  EXPECT_EQ(count("a"), count("b"));
  EXPECT_EQ(count("v"), 0U);
  EXPECT_EQ(count("q"), 0U);
  EXPECT_EQ(count("x"), 0U);
}

TEST(MeasureAll, SaysWhichOperationCannotBeMeasured) {
  const auto graph = parse_valid(R"(graph g {
  input %x: f32[4]
  %a: f32[4] = test::unknown(%x)
  return %a
}
)");
  HashKernels kernels;
  const auto recipes = measure_all(*graph, kernels);
  ASSERT_FALSE(recipes);
  EXPECT_EQ(recipes.error().message,
            "there is no operator test::unknown; when measuring '%a: f32[4] = test::unknown(%x)'");
}

}  // namespace
}  // namespace ebb::exec

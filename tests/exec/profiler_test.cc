// What a profile of a step says, and that it is enough to know how large the arena will be.
#include "ebb/exec/profiler.h"

#include <gtest/gtest.h>

#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"
#include "tests/exec/compiled.h"
#include "tests/exec/hash_kernels.h"
#include "tests/exec/runnable_graph.h"
#include "tests/meaning/random_decisions.h"
#include "tests/meaning/random_graph.h"

namespace ebb::exec {
namespace {

using std::chrono::microseconds;

constexpr std::uint64_t kGraphs = 400;

// Two operations of one signature, one of another, host arithmetic and a copy there and back.
constexpr const char* kStep = R"(graph step {
  input %x: f32[64]
  scalar $lr: f64
  %a: f32[64] = test::op(%x)
  %a.host: f32[64] @host = ebb::swap_out(%a)
  %b: f32[64] = test::op(%a)
  $half: f64 = scalar::mul(0.5, $lr)
  %a.back: f32[64] = ebb::swap_in(%a.host) after b
  %c: f32[64] = test::other(%a.back, %b)
  return %c
}
)";

std::vector<exec::Interval> in_microseconds(std::initializer_list<int> times) {
  std::vector<exec::Interval> result;
  for (const int time : times) result.push_back({microseconds(7), microseconds(7 + time)});
  return result;
}

class ProfilerTest : public testing::Test {
 protected:
  HashKernels kernels_;
  Compiled compiled_ = compile(parse_valid(kStep).value(), kernels_, {});
  Profiler profiler_{compiled_.graph, compiled_.program, compiled_.recipes};

  [[nodiscard]] ProfiledOperation find(std::string_view signature) const {
    return *profiler_.profile("cpu")->find(signature);
  }
};

constexpr std::string_view kOp = "test::op(f32[64]) -> f32[64]";
constexpr std::string_view kOther = "test::other(f32[64], f32[64]) -> f32[64]";

TEST_F(ProfilerTest, HasEachSignatureOnceAndNeitherCopiesNorArithmetic) {
  profiler_.add_step(in_microseconds({1, 2, 3, 4, 5, 6}));
  const Profile profile = profiler_.profile("cpu").value();
  EXPECT_EQ(profile.device(), "cpu");
  ASSERT_EQ(profile.operations().size(), 2U);
  EXPECT_EQ(profile.operations()[0].signature, kOp);
  EXPECT_EQ(profile.operations()[1].signature, kOther);
  EXPECT_EQ(match(compiled_.graph, profile).covered, 3U);
  EXPECT_EQ(match(compiled_.graph, profile).operations, 3U);
}

TEST_F(ProfilerTest, TakesTheMedianOverOperationsAndSteps) {
  profiler_.add_step(in_microseconds({900, 0, 900, 0, 0, 900}));
  profiler_.add_step(in_microseconds({10, 0, 20, 0, 0, 7}));
  profiler_.add_step(in_microseconds({30, 0, 500, 0, 0, 8}));
  EXPECT_EQ(find(kOp).time, microseconds(20)) << "the lower one of 20 and 30";
  EXPECT_EQ(find(kOther).time, microseconds(7));
}

TEST_F(ProfilerTest, CountsTheFirstStepOnlyWhereItIsTheOnlyOne) {
  profiler_.add_step(in_microseconds({5, 0, 5, 0, 0, 5}));
  EXPECT_EQ(find(kOther).time, microseconds(5));
  profiler_.add_step(in_microseconds({9, 0, 9, 0, 0, 9}));
  EXPECT_EQ(find(kOther).time, microseconds(9));
}

// What somebody would take for the recipes who knows the results from the recipes, but of the
// temporaries no more than what the profile says.
std::vector<Recipe> with_workspaces_of(const Profile& profile, const Compiled& compiled) {
  std::vector<Recipe> recipes = compiled.recipes;
  for (const Instruction& instruction : compiled.program.instructions) {
    if (instruction.kind != InstructionKind::kKernel) continue;
    const NodeId node = instruction.node;
    auto& requests = recipes[node.index()].requests;
    std::erase_if(requests, [](const Request& request) { return request.result < 0; });
    const ProfiledOperation* found = profile.find(signature(compiled.graph, node));
    EXPECT_NE(found, nullptr) << print(compiled.graph, node);
    if (found == nullptr || found->workspace.count == 0) continue;
    requests.push_back({.size = found->workspace,
                        .result = Request::kTemporary,
                        .freed_after = static_cast<std::uint32_t>(requests.size() + 1)});
  }
  return recipes;
}

TEST(Profiler, KnowsTheWorkspacesOfARewrittenStepToTheByte) {
  HashKernels kernels;
  std::size_t with_workspace = 0;
  for (std::uint64_t seed = 0; seed < kGraphs; ++seed) {
    const LowerOptions options{.alignment = Bytes{seed % 3 == 0 ? 512 : 64}};
    const Compiled original = compile(runnable_graph(seed), kernels, options);
    Profiler profiler(original.graph, original.program, original.recipes, options);
    profiler.add_step(std::vector<exec::Interval>(original.program.instructions.size()));
    const Profile profile =
        with_split_calls(profiler.profile("cpu").value(), original.graph, kernels, options).value();
    for (const ProfiledOperation& each : profile.operations()) {
      if (each.workspace.count > 0) ++with_workspace;
    }
    const Compiled rewritten =
        compile(rewritten_at_random(original.graph, seed, 30), kernels, options);
    const auto predicted = lower(rewritten.graph, with_workspaces_of(profile, rewritten), options);
    ASSERT_EQ(predicted->arena_size, rewritten.program.arena_size) << "seed " << seed;
    ASSERT_EQ(predicted->bound, rewritten.program.bound) << "seed " << seed;
  }
  EXPECT_GT(with_workspace, kGraphs);
}

}  // namespace
}  // namespace ebb::exec

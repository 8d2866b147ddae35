// Plans from several seeds at once.
#include <algorithm>
#include <atomic>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ebb/graph/parse.h"
#include "ebb/plan/restarts.h"
#include "tests/sanitized.h"

namespace ebb {
namespace {

// Each forward operation makes 4 MiB, which the backward phase reads in reverse.
Graph chain(int length) {
  std::string text = "graph step {\n  input %x: f32[1048576]\n";
  std::string before = "x";
  for (int i = 0; i < length; ++i) {
    text +=
        fmt::format("  %a{}: f32[1048576] = my::f(%{}) takes {}us\n", i, before, 40 + i * 7 % 50);
    before = fmt::format("a{}", i);
  }
  for (int i = length; i-- > 0;) {
    text += fmt::format("  %g{}: f32[1048576] = my::g(%{}, %a{}) takes 60us\n", i, before, i);
    before = fmt::format("g{}", i);
  }
  return parse_valid(text + "  return %" + before + "\n}\n").value();
}

// The thread sanitizer looks on.
TEST(FastestPlan, SearchesThatRunAtOnceTellTheirProgressOneAtATime) {
  const Graph graph = chain(24);
  const Device device = find_device("h200").value();
  PlanOptions options{.may_recompute = false, .evaluations = kSanitized ? 20 : 200};
  options.budget = Bytes{unconstrained_bytes(graph, device, options).value().count / 4};
  std::atomic<std::uint32_t> asked = 0;
  options.is_out_of_time = [&] {
    ++asked;
    return false;
  };
  std::uint32_t told = 0;
  std::uint32_t most = 0;
  options.progress = [&](std::uint32_t done, std::uint32_t of, Duration /*best*/) {
    ++told;
    most = std::max(most, of);
    EXPECT_LE(done, of);
  };
  const Planned planned = make_fastest_plan(graph, device, options).value();
  ASSERT_TRUE(planned.plan);
  ASSERT_GT(planned.plan->step(), planned.unconstrained_step * 21 / 20) << "one seed was enough";
  EXPECT_EQ(told, asked);
  EXPECT_GE(most, 4 * *options.evaluations) << "of several searches together";

  options.progress = nullptr;
  const Planned again = make_fastest_plan(graph, device, options).value();
  EXPECT_EQ(to_text(again.plan->file), to_text(planned.plan->file));
}

}  // namespace
}  // namespace ebb

// No text breaks the reader of plans, and what it accepts it writes back the same. Whatever a plan
// makes of a graph computes what the graph computes; everything else is refused.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ebb/base/check.h"
#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"
#include "ebb/plan/device.h"
#include "ebb/plan/validate.h"
#include "ebb/rewrite/plan_file.h"
#include "ebb/rewrite/proof.h"
#include "tests/fuzz/error_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

// Something of everything that rules look at: views, an update, a random operation, a branch,
// a mask, a host tensor.
constexpr std::string_view kGraph = R"(graph step {
  branch then
  input %x: f32[4,8]
  param %w: f32[8,8]
  scalar $lr: f64
  %h: f32[4,8] = aten::mm(%x, %w)
  %t: f32[8,4] strides [1,8] ~ %h = aten::t(%h)
  %m: bool[4,8] = aten::bernoulli(%h) random
  %a: f32[4,8] = aten::mul(%h, %m)
  %c: f32[4,8] = my::op(%a) in then
  %s: f32[] = aten::sum(%a)
  %n: f32[] @host = my::log(%s) effect
  %ga: f32[4,8] = aten::mul(%s, %m)
  %gh: f32[4,8] = aten::threshold_backward(%ga, %h) {threshold = 0.0}
  %gx: f32[4,8] = aten::mm(%gh, %w)
  %gw: f32[8,8] = aten::mm(%t, %gh)
  %w.1: f32[8,8] ~ %w = aten::add_(%w!, %gw) {alpha = $lr}
  return %s, %c, %gx, %w.1
}
)";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ebb::Graph kStep = ebb::parse_valid(kGraph).value();
  static const std::uint64_t kFingerprint = ebb::fingerprint(kStep);

  auto plan = ebb::parse_plan(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!plan) {
    ebb::expect_one_line_of_words(plan.error());
    return 0;
  }
  const std::string canonical = ebb::to_text(*plan);
  const auto again = ebb::parse_plan(canonical);
  EBB_CHECK(again.has_value(), "what was written is refused: {}", again.error().message);
  EBB_CHECK(ebb::to_text(*again) == canonical, "writing is not stable");
  EBB_CHECK(again->fingerprint == plan->fingerprint && again->device == plan->device &&
                again->budget == plan->budget &&
                again->decisions.size() == plan->decisions.size() && again->peak == plan->peak &&
                again->tensors.size() == plan->tensors.size() &&
                again->workspaces.size() == plan->workspaces.size(),
            "another plan");

  // A plan for another graph stays one by chance of 2^-64.
  plan->fingerprint = kFingerprint;
  const auto rewritten = ebb::apply_plan(kStep, *plan, {.verify_each = true});
  if (!rewritten) {
    ebb::expect_one_line_of_words(rewritten.error());
    return 0;
  }
  const auto proof = ebb::prove_same(kStep, rewritten->graph, {.allow_lossy = true});
  EBB_CHECK(proof.has_value(), "not the same computation: {}", proof.error().message);
  const auto read = ebb::parse_valid(ebb::print(rewritten->graph));
  EBB_CHECK(read.has_value(), "canonical text is refused: {}", read.error().message);
  static const ebb::Device kDevice = ebb::find_device("h200").value();
  if (const auto right = ebb::validate_plan(kStep, *plan, kDevice); !right) {
    ebb::expect_one_line_of_words(right.error());
  }
  return 0;
}

#include "ebb/plan/costs.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/text_names.h"
#include "ebb/plan/roofline.h"
#include "ebb/plan/workspace_tensorflow.h"

namespace ebb {
namespace {

constexpr Duration kLongestStep{std::int64_t{1} << 61};

struct Cost {
  Duration time{0};
  Bytes workspace;
  CostSource source = CostSource::kNothing;
};

tl::unexpected<Error> unknown_size(const Graph& graph, NodeId node, TensorId tensor) {
  return fail(
      ErrorKind::kBadInput,
      fmt::format("how large %{} is, is not known ({}), and so what '{}' costs: fix the batch "
                  "size and all other dimensions, or give the operation a time in the text "
                  "or in a profile",
                  spelled(graph.name(tensor)), to_text(graph.type(tensor)), graph.name(node)));
}

bool is_on_link(std::string_view op) { return op == kSwapOut || op == kSwapIn; }

Result<Cost> cost_of(const Graph& graph, NodeId node, const Device& device,
                     const Profile* profile) {
  if (!graph.is_op(node) || is_on_link(graph.op(node))) return Cost{};
  const Bytes workspace = graph.workspace(node);
  if (profile != nullptr) {
    if (const ProfiledOperation* found = profile->find(signature(graph, node))) {
      return Cost{found->time, found->workspace, CostSource::kProfile};
    }
  }
  if (const auto takes = graph.takes(node)) return Cost{*takes, workspace, CostSource::kText};
  const Work work = work_of(graph, node);
  if (work.kind == WorkKind::kNothing) return Cost{.workspace = workspace};
  if (const TensorId tensor = find_unknown_size(graph, node); tensor.valid()) {
    return unknown_size(graph, node, tensor);
  }
  return Cost{time_of(work, device),
              workspace > Bytes{} ? workspace : tensorflow_workspace(graph, node, device),
              work.is_known ? CostSource::kModel : CostSource::kUnknownOperation};
}

// The operation that this one computes again, which is no clone itself; or this one.
NodeId original_of(const Graph& graph, NodeId node) {
  const NodeId original = graph.clone_of(node);
  return original.valid() ? original : node;
}

}  // namespace

Result<StepCosts> estimate_costs(const Graph& graph, const Device& device, const Profile* profile) {
  StepCosts costs{.compute = std::vector<Duration>(graph.node_count(), Duration{0}),
                  .workspace = std::vector<Bytes>(graph.node_count()),
                  .source = std::vector<CostSource>(graph.node_count(), CostSource::kNothing),
                  .link = device.link,
                  .launch = device.launch,
                  .memory = {device.memory_bandwidth.bytes_per_second * device.efficiency.memory}};
  bool is_profile_used = false;
  Duration total{0};
  for (const NodeId node : graph.order()) {
    const auto cost = cost_of(graph, original_of(graph, node), device, profile);
    if (!cost) return fail(cost.error());
    if (cost->time > kLongestStep - total) {
      return fail(
          ErrorKind::kBadInput,
          fmt::format("the operations up to '{}' would take more than 73 years", graph.name(node)));
    }
    total += cost->time;
    costs.compute[node.index()] = cost->time;
    costs.workspace[node.index()] = cost->workspace;
    costs.source[node.index()] = cost->source;
    if (cost->source == CostSource::kUnknownOperation) ++costs.unknown;
    if (cost->source == CostSource::kProfile) is_profile_used = true;
  }
  if (profile != nullptr && !is_profile_used) {
    return fail(ErrorKind::kBadInput,
                fmt::format("the profile has none of the graph's operations: it was measured on "
                            "another step, or with another batch size or precision; measure again, "
                            "or leave it away"));
  }
  return costs;
}

Duration snapshot_time(const StepCosts& costs, Bytes bytes) {
  if (costs.memory.bytes_per_second <= 0) return costs.launch;
  const double seconds = 2.0 * static_cast<double>(bytes.count) / costs.memory.bytes_per_second;
  return costs.launch + Duration{std::llround(seconds * 1e9)};
}

std::string unknown_operators(const Graph& graph, const StepCosts& costs) {
  std::map<std::string_view, std::size_t> counts;
  for (const NodeId node : graph.order()) {
    if (costs.source[node.index()] == CostSource::kUnknownOperation) ++counts[graph.op(node)];
  }
  std::vector<std::pair<std::string_view, std::size_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string out;
  for (const auto& [op, count] : sorted) {
    out += fmt::format("{}{} ({})", out.empty() ? "" : ", ", op, count);
  }
  return out;
}

}  // namespace ebb

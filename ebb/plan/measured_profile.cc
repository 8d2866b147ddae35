#include "ebb/plan/measured_profile.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "ebb/graph/signature.h"
#include "ebb/plan/roofline.h"
#include "ebb/plan/workspace_tensorflow.h"

namespace ebb {
namespace {

struct Seen {
  std::vector<Duration> times;
  Bytes workspace;
};

Duration median(std::vector<Duration>& times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace

Result<Profile> make_profile(std::span<const std::shared_ptr<const Graph>> graphs,
                             const Device& device, std::span<const MeasuredOperation> measured) {
  std::map<std::string, Seen> by_signature;
  for (const MeasuredOperation& each : measured) {
    const auto has_it = [&](const auto& graph) { return graph->find_node(each.name).valid(); };
    const auto newest = std::find_if(graphs.rbegin(), graphs.rend(), has_it);
    if (newest == graphs.rend()) continue;
    const Graph& graph = **newest;
    const NodeId node = graph.find_node(each.name);
    if (work_of(graph, node).kind == WorkKind::kNothing) continue;
    Seen& seen = by_signature[signature(graph, node)];
    seen.times.push_back(each.time);
    seen.workspace =
        std::max(seen.workspace,
                 each.workspace ? *each.workspace : tensorflow_workspace(graph, node, device));
  }
  if (by_signature.empty()) {
    return fail(ErrorKind::kUsage,
                "nothing that was measured is an operation of a step that Ebb has planned");
  }
  std::vector<ProfiledOperation> operations;
  operations.reserve(by_signature.size());
  for (auto& [signature, seen] : by_signature) {
    operations.push_back({signature, median(seen.times), seen.workspace});
  }
  return Profile::make(device.name, std::move(operations));
}

}  // namespace ebb

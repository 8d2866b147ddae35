#include "ebb/import/graphdef_wiring.h"

#include <functional>
#include <queue>
#include <unordered_map>

#include <fmt/format.h>

#include "ebb/base/nearest.h"
#include "ebb/base/utf8.h"
#include "ebb/import/graphdef_error.h"

namespace ebb {
namespace {

using Numbers = std::unordered_map<std::string_view, std::uint32_t>;

Result<Numbers> number_names(const GraphDefView& graph) {
  Numbers numbers;
  numbers.reserve(graph.nodes.size());
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const NodeDefView& node = graph.nodes[i];
    if (node.name.empty()) return refuse_graphdef("G02", fmt::format("node {} has no name", i));
    if (!is_utf8(node.name) || node.name.starts_with('^') ||
        node.name.find(':') != std::string_view::npos) {
      return refuse_graphdef(
          "G02", fmt::format("'{}' is no name for a node: neither ':' nor a leading '^' "
                             "may be in it, and it must be UTF-8",
                             printable(node.name)));
    }
    if (node.op.empty() || !is_utf8(node.op)) {
      return refuse_graphdef("G02", fmt::format("node '{}' has no operator", printable(node.name)));
    }
    if (!numbers.emplace(node.name, i).second) {
      return refuse_graphdef(
          "G03", fmt::format("two nodes are called '{}'; names must differ", printable(node.name)));
    }
  }
  return numbers;
}

tl::unexpected<Error> no_such_input(const GraphDefView& graph, const NodeDefView& node,
                                    std::string_view input) {
  NearestWord nearest(input);
  for (const NodeDefView& other : graph.nodes) nearest.offer(other.name);
  return refuse_graphdef(
      "G04", fmt::format("node '{}' reads '{}', which is not in the graph{}", printable(node.name),
                         printable(input), nearest.hint()));
}

bool starts_next_round(std::string_view op) {
  return op == "NextIteration" || op == "RefNextIteration";
}
bool joins(std::string_view op) { return op == "Merge" || op == "RefMerge"; }

Result<Wiring> find_wires(const GraphDefView& graph, const Numbers& numbers) {
  Wiring wiring;
  wiring.starts.reserve(graph.nodes.size() + 1);
  for (const NodeDefView& node : graph.nodes) {
    wiring.starts.push_back(static_cast<std::uint32_t>(wiring.wires.size()));
    bool had_control = false;
    for (const std::string_view text : node.inputs) {
      const auto input = read_input(text);
      if (!input) return no_such_input(graph, node, text);
      const auto found = numbers.find(input->node);
      if (found == numbers.end()) return no_such_input(graph, node, input->node);
      if (had_control && !input->is_control) {
        return refuse_graphdef("G04",
                               fmt::format("node '{}' has the input '{}' behind a control input; "
                                           "control inputs stand last",
                                           printable(node.name), printable(text)));
      }
      had_control = input->is_control;
      const bool closes_loop =
          joins(node.op) && !input->is_control && starts_next_round(graph.nodes[found->second].op);
      wiring.wires.push_back({.node = found->second,
                              .result = input->result,
                              .is_control = input->is_control,
                              .closes_loop = closes_loop});
    }
  }
  wiring.starts.push_back(static_cast<std::uint32_t>(wiring.wires.size()));
  return wiring;
}

// Some nodes that wait for each other, of those that were never ready.
std::string describe_cycle(const GraphDefView& graph, const Wiring& wiring,
                           const std::vector<std::uint32_t>& waits_for) {
  std::uint32_t at = 0;
  while (waits_for[at] == 0) ++at;
  const auto blocking = [&](std::uint32_t node) {
    for (const Wire& wire : wiring.inputs(node)) {
      if (!wire.closes_loop && waits_for[wire.node] > 0) return wire.node;
    }
    return node;
  };
  std::vector<bool> seen(graph.nodes.size());
  for (; !seen[at]; at = blocking(at)) seen[at] = true;
  constexpr int kMostNames = 6;
  std::string names;
  std::uint32_t next = at;
  for (int i = 0; i < kMostNames; ++i) {
    names += fmt::format("{}'{}'", i == 0 ? "" : ", ", printable(graph.nodes[next].name));
    next = blocking(next);
    if (next == at) return names;
  }
  return names + ", ...";
}

Status find_order(const GraphDefView& graph, Wiring& wiring) {
  const std::size_t count = graph.nodes.size();
  std::vector<std::uint32_t> waits_for(count);
  std::vector<std::uint32_t> starts(count + 1);
  for (const Wire& wire : wiring.wires) {
    if (!wire.closes_loop) ++starts[wire.node + 1];
  }
  for (std::size_t i = 0; i < count; ++i) starts[i + 1] += starts[i];
  std::vector<std::uint32_t> readers(starts.back());
  std::vector<std::uint32_t> next(starts.begin(), starts.end() - 1);
  for (std::uint32_t node = 0; node < count; ++node) {
    for (const Wire& wire : wiring.inputs(node)) {
      if (wire.closes_loop) continue;
      readers[next[wire.node]++] = node;
      ++waits_for[node];
    }
  }
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
  for (std::uint32_t node = 0; node < count; ++node) {
    if (waits_for[node] == 0) ready.push(node);
  }
  wiring.order.reserve(count);
  while (!ready.empty()) {
    const std::uint32_t node = ready.top();
    ready.pop();
    wiring.order.push_back(node);
    for (std::uint32_t i = starts[node]; i < starts[node + 1]; ++i) {
      if (--waits_for[readers[i]] == 0) ready.push(readers[i]);
    }
  }
  if (wiring.order.size() == count) return {};
  return refuse_graphdef("G05", fmt::format("these nodes wait for each other: {}",
                                            describe_cycle(graph, wiring, waits_for)));
}

}  // namespace

Result<Wiring> wire_up(const GraphDefView& graph) {
  auto numbers = number_names(graph);
  if (!numbers) return fail(numbers.error());
  auto wiring = find_wires(graph, *numbers);
  if (!wiring) return fail(wiring.error());
  if (auto ok = find_order(graph, *wiring); !ok) return fail(ok.error());
  wiring->numbers = std::move(*numbers);
  return wiring;
}

}  // namespace ebb

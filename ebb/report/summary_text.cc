#include <algorithm>

#include <fmt/format.h>

#include "ebb/graph/print.h"
#include "ebb/graph/text_names.h"
#include "ebb/import/graphdef_file_node.h"
#include "ebb/order/gamma.h"
#include "ebb/report/curve.h"
#include "ebb/report/summary.h"

namespace ebb {
namespace {

constexpr std::size_t kTensorsShown = 8;

std::string counted(std::size_t count, std::string_view one, std::string_view many = {}) {
  return fmt::format("{} {}{}", count, count == 1 || many.empty() ? one : many,
                     count == 1 || !many.empty() ? "" : "s");
}

// "3 inputs, 1 scalar", without what there is none of.
class CountList {
 public:
  void add(std::size_t count, std::string_view one, std::string_view many = {}) {
    if (count == 0) return;
    if (!text_.empty()) text_ += ", ";
    text_ += counted(count, one, many);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string counts_text(const Summary::Counts& counts) {
  CountList what;
  what.add(counts.operations, "operation");
  what.add(counts.parameters, "parameter");
  what.add(counts.inputs, "input");
  what.add(counts.constants, "constant");
  what.add(counts.scalars, "runtime scalar");
  CountList how;
  how.add(counts.updates, "update in place", "updates in place");
  how.add(counts.control_edges, "control edge");
  how.add(counts.random, "random operation");
  how.add(counts.effects, "operation with effects", "operations with effects");
  how.add(counts.swap_outs, "swap-out");
  how.add(counts.swap_ins, "swap-in");
  how.add(counts.clones, "recomputed operation");
  std::string out = fmt::format("  {}\n", what.text().empty() ? "nothing in it" : what.text());
  if (!how.text().empty()) out += fmt::format("  {}\n", how.text());
  return out;
}

std::string order_text(const Graph& graph, const Summary& summary) {
  if (summary.counts.operations == 0) return {};
  std::string out = fmt::format("\nOrder: {} (γ 1 to {}); at most {} share one (γ = {})\n",
                                counted(summary.highest_gamma, "level"), summary.highest_gamma,
                                counted(summary.widest_count, "operation"), summary.widest_level);
  if (summary.operations_timed > 0) {
    out += fmt::format("  {} of compute, as {} of {} operations say what they take\n",
                       to_human(summary.known_time), summary.operations_timed,
                       summary.counts.operations);
  }
  if (!summary.long_lived.empty()) {
    out += "  what waits longest in memory, by size and by levels from producer to last reader:\n";
    for (const auto& item : summary.long_lived) {
      out += fmt::format("  {:>10}  {:>5} levels  %{}: {}\n", to_human(item.size), item.lifetime,
                         spelled(graph.name(item.tensor)), to_text(graph.type(item.tensor)));
    }
  }
  return out;
}

// The memory at operations only: the declarations that usually stand in front say nothing new.
std::string curve_text(const Graph& graph, const MemoryCurve& memory) {
  std::vector<Bytes> values;
  std::vector<NodeId> nodes;
  for (std::uint32_t i = 0; i < graph.order().size(); ++i) {
    if (!graph.is_op(graph.order()[i]) || is_file_node(graph, graph.order()[i])) continue;
    values.push_back(memory.device[i]);
    nodes.push_back(graph.order()[i]);
  }
  if (values.empty()) return {};
  const auto marked =
      static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
  return draw_curve(values, marked,
                    fmt::format("'{}', operation {} of {}", spelled(graph.name(nodes[marked])),
                                marked + 1, values.size()));
}

std::string peak_text(const Graph& graph, const Summary& summary) {
  const MemoryCurve& memory = summary.memory;
  const NodeId peak_node = graph.order()[memory.peak_position];
  const std::string when = graph.is_op(peak_node)
                               ? fmt::format("while '{}' runs", spelled(graph.name(peak_node)))
                               : "before the first operation";
  std::string out = fmt::format("\nAt the peak, {}:\n", when);
  const auto share = [&](Bytes bytes, std::string_view what) {
    if (bytes.count > 0) out += fmt::format("  {:>10}  {}\n", to_human(bytes), what);
  };
  share(summary.at_peak.parameters, "parameters and optimizer state");
  share(summary.at_peak.constants, "constants");
  share(summary.at_peak.inputs, "inputs");
  share(summary.at_peak.intermediates, "intermediates: activations and gradients");
  share(summary.at_peak.workspace,
        fmt::format("workspace of '{}'", spelled(graph.name(peak_node))));
  const auto& residents = summary.residents_at_peak;
  if (residents.empty()) return out;
  out += "  the largest there:\n";
  for (std::size_t i = 0; i < residents.size() && i < kTensorsShown; ++i) {
    const auto& [storage, size] = residents[i];
    const TensorId root = graph.root(storage);
    out += fmt::format("  {:>10}  %{}: {} ({})\n", to_human(size), spelled(graph.name(root)),
                       to_text(graph.type(root)), role(graph, storage));
  }
  if (residents.size() > kTensorsShown) {
    out += fmt::format("  {:>10}  and {} more\n", "", residents.size() - kTensorsShown);
  }
  return out;
}

std::string notes_text(const Summary& summary) {
  std::string out;
  if (summary.memory.unknown_sizes > 0) {
    out += fmt::format("\nNote: {} of unknown size {} not counted above.\n",
                       counted(summary.memory.unknown_sizes, "tensor"),
                       summary.memory.unknown_sizes == 1 ? "is" : "are");
  }
  if (summary.devices > 1) {
    out += fmt::format("\nNote: operations run on {} devices, whose memory is added up above.\n",
                       summary.devices);
  }
  if (summary.implicit_copies > 0) {
    out +=
        fmt::format("\nNote: {} of a host tensor by a device operation; each copies on the spot.\n",
                    counted(summary.implicit_copies, "read"));
  }
  return out;
}

}  // namespace

std::string to_text(const Graph& graph, const Summary& summary) {
  std::string out = fmt::format("graph {}\n", spelled(graph.name()));
  out += counts_text(summary.counts);
  out += order_text(graph, summary);
  if (graph.order().empty()) return out + notes_text(summary);

  const MemoryCurve& memory = summary.memory;
  out += fmt::format("\nDevice memory from the first operation to the last: peak {}\n",
                     to_human(memory.peak));
  out += curve_text(graph, memory);
  out += peak_text(graph, summary);
  if (memory.host_peak.count > 0) {
    out += fmt::format("\nHost memory: peak {}\n", to_human(memory.host_peak));
  }
  if (summary.floor.node.valid()) {
    out += fmt::format(
        "\nFloor: {}, what '{}' needs by itself (inputs, outputs, workspace).\n"
        "  No budget can be smaller, whatever is moved or recomputed.\n",
        to_human(summary.floor.bytes), spelled(graph.name(summary.floor.node)));
  }
  return out + notes_text(summary);
}

std::string lines_table(const Graph& graph, const Summary& summary) {
  const Gamma gamma(graph);
  std::string out = fmt::format("{:>5}  {:>5}  {:>10}  {}\n", "line", "γ", "memory", "node");
  for (std::size_t i = 0; i < graph.order().size(); ++i) {
    const NodeId node = graph.order()[i];
    out += fmt::format("{:>5}  {:>5}  {:>10}  {}\n", i + 1, gamma[node],
                       to_human(summary.memory.device[i]), print(graph, node));
  }
  return out;
}

}  // namespace ebb

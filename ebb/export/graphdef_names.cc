#include "ebb/export/graphdef_names.h"

#include <unordered_set>

#include <fmt/format.h>

#include "ebb/graph/ebb_ops.h"
#include "ebb/import/graphdef_node.h"
#include "ebb/import/graphdef_notes.h"

namespace ebb {
namespace {

// "x:1.host" is no name in TensorFlow, and one that begins with '_' is TensorFlow's own.
std::string legal_name(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    const bool is_legal = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '/' || c == '-' ||
                          c == '>';
    if (!is_legal) c = '_';
  }
  const bool begins_well =
      !out.empty() && out[0] != '_' && out[0] != '/' && out[0] != '-' && out[0] != '>';
  return begins_well ? out : "ebb" + out;
}

bool means_same(std::string_view a, std::string_view b) {
  const auto x = read_input(a);
  const auto y = read_input(b);
  return x && y && x->node == y->node && x->result == y->result && x->is_control == y->is_control;
}

}  // namespace

bool is_new_node(const Graph& graph, NodeId node) {
  if (!graph.clone_of(node).valid() && !is_copy(graph.op(node))) return false;
  // A clone inherits its original's bytes, in which another name stands.
  const Attribute* kept = graph.find_attribute(node, kNodeBytes);
  if (kept == nullptr || kept->is_list) return true;
  const auto* bytes = std::get_if<Blob>(&graph.items(*kept).front());
  return bytes == nullptr || name_of_node(graph.text(bytes->id)) != graph.name(node);
}

TensorFlowNames::TensorFlowNames(const Graph& graph) : graph_(graph) {
  std::unordered_set<std::string> taken;
  std::vector<NodeId> added;
  for (const NodeId node : graph.order()) {
    if (is_new_node(graph, node)) {
      added.push_back(node);
    } else {
      taken.emplace(graph.name(node));
    }
    if (const Attribute* feeds = graph.find_attribute(node, kFeeds)) {
      for (const Value& item : graph.items(*feeds)) {
        if (const auto* text = std::get_if<Text>(&item)) {
          feeders_.emplace(graph.text(text->id), node);
        }
      }
    }
  }
  for (const NodeId node : added) {
    const std::string wanted = legal_name(graph.name(node));
    std::string name = wanted;
    for (int i = 1; !taken.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
    made_.emplace(node, std::move(name));
  }
}

std::string_view TensorFlowNames::node(NodeId node) const {
  const auto made = made_.find(node);
  return made == made_.end() ? graph_.name(node) : std::string_view(made->second);
}

std::string TensorFlowNames::input(TensorId tensor) const {
  const NodeId maker = graph_.producer(tensor);
  const auto results = graph_.results(maker);
  return input_text(node(maker), static_cast<std::uint32_t>(tensor.index() - results[0].index()));
}

std::optional<std::string_view> TensorFlowNames::feeder(NodeId node, std::size_t operand) const {
  const auto found = feeders_.find(fmt::format("{}:{}", graph_.name(node), operand));
  if (found == feeders_.end()) return std::nullopt;
  return graph_.name(found->second);
}

std::string with_changed_inputs(std::string_view node, const std::vector<std::string>& inputs) {
  const std::vector<std::string_view> old = inputs_of_node(node);
  std::vector<std::string> all;
  std::size_t data = 0;
  bool is_same = true;
  for (; data < inputs.size() && !inputs[data].starts_with('^'); ++data) {
    const bool stays = data < old.size() && means_same(old[data], inputs[data]);
    all.emplace_back(stays ? old[data] : std::string_view(inputs[data]));
    is_same = is_same && stays;
  }
  // Control edges may be given twice in a file, and once in a graph.
  const auto first_control = inputs.begin() + static_cast<std::ptrdiff_t>(data);
  const std::unordered_set<std::string_view> wanted(first_control, inputs.end());
  const std::unordered_set<std::string_view> there(old.begin(), old.end());
  for (std::size_t i = data; i < old.size(); ++i) {
    if (wanted.contains(old[i])) {
      all.emplace_back(old[i]);
    } else {
      is_same = false;
    }
  }
  for (auto input = first_control; input != inputs.end(); ++input) {
    if (there.contains(*input)) continue;
    all.push_back(*input);
    is_same = false;
  }
  return is_same ? std::string(node) : with_inputs(node, all);
}

}  // namespace ebb

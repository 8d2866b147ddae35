#include "ebb/export/graphdef_names.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>
#include <protozero/pbf_reader.hpp>

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

std::vector<std::string_view> inputs_of(std::string_view node) {
  std::vector<std::string_view> inputs;
  protozero::pbf_reader reader(node.data(), node.size());
  while (reader.next()) {
    if (reader.tag() == 3) {
      const protozero::data_view input = reader.get_view();
      inputs.emplace_back(input.data(), input.size());
    } else {
      reader.skip();
    }
  }
  return inputs;
}

}  // namespace

bool is_new_node(const Graph& graph, NodeId node) {
  if (graph.clone_of(node).valid()) return true;
  return is_copy(graph.op(node)) && graph.find_attribute(node, kNodeBytes) == nullptr;
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
  const std::vector<std::string_view> old = inputs_of(node);
  std::vector<std::string> all;
  std::size_t data = 0;
  bool is_same = true;
  for (; data < inputs.size() && !inputs[data].starts_with('^'); ++data) {
    const bool stays = data < old.size() && means_same(old[data], inputs[data]);
    all.emplace_back(stays ? old[data] : std::string_view(inputs[data]));
    is_same = is_same && stays;
  }
  // Control edges may be given twice in a file, and once in a graph.
  const auto is_wanted = [&](std::string_view control) {
    return std::find(inputs.begin() + static_cast<std::ptrdiff_t>(data), inputs.end(), control) !=
           inputs.end();
  };
  for (std::size_t i = data; i < old.size(); ++i) {
    if (is_wanted(old[i])) {
      all.emplace_back(old[i]);
    } else {
      is_same = false;
    }
  }
  for (std::size_t i = data; i < inputs.size(); ++i) {
    if (std::find(old.begin(), old.end(), inputs[i]) != old.end()) continue;
    all.push_back(inputs[i]);
    is_same = false;
  }
  return is_same ? std::string(node) : with_inputs(node, all);
}

}  // namespace ebb

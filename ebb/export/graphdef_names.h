// What nodes and tensors are called in a GraphDef. Those that came from one keep their names; for
// those that rewriting added, names are made that TensorFlow accepts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ebb/graph/graph.h"

namespace ebb {

// Whether rewriting added the node and no GraphDef has had it.
bool is_new_node(const Graph& graph, NodeId node);

class TensorFlowNames {
 public:
  explicit TensorFlowNames(const Graph& graph);

  [[nodiscard]] std::string_view node(NodeId node) const;
  // "a" or "a:1".
  [[nodiscard]] std::string input(TensorId tensor) const;
  // The NextIteration that feeds this operand one round later.
  [[nodiscard]] std::optional<std::string_view> feeder(NodeId node, std::size_t operand) const;

 private:
  const Graph& graph_;
  std::unordered_map<NodeId, std::string> made_;
  std::unordered_map<std::string, NodeId> feeders_;  // by "merge:1"
};

// A NodeDef with these inputs. Those that mean the same keep their bytes; a node whose inputs all
// do is returned as it stands.
std::string with_changed_inputs(std::string_view node, const std::vector<std::string>& inputs);

}  // namespace ebb

#include "ebb/graph/control_flow.h"

#include <string_view>

namespace ebb {

bool leads_elsewhere(const Graph& graph, NodeId node) {
  const std::string_view op = graph.op(node);
  return op == "tf::Enter" || op == "tf::RefEnter" || op == "tf::NextIteration" ||
         op == "tf::RefNextIteration";
}

bool makes_elsewhere(const Graph& graph, NodeId node) {
  const std::string_view op = graph.op(node);
  return leads_elsewhere(graph, node) || op == "tf::Switch" || op == "tf::RefSwitch" ||
         op == "tf::_SwitchN";
}

bool comes_from_elsewhere(const Graph& graph, NodeId node) {
  const std::string_view op = graph.op(node);
  return op == "tf::Exit" || op == "tf::RefExit";
}

bool joins_branches(const Graph& graph, NodeId node) {
  const std::string_view op = graph.op(node);
  return op == "tf::Merge" || op == "tf::RefMerge" || op == "tf::ControlTrigger";
}

}  // namespace ebb

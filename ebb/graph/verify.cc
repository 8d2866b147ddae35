#include "ebb/graph/verify.h"

#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/parse.h"
#include "ebb/graph/verify_checks.h"

namespace ebb {

std::vector<Violation> find_violations(const Graph& graph, std::size_t limit) {
  for (const Invariant& invariant : kInvariants) {
    Findings findings(invariant.code, limit);
    invariant.check(graph, findings);
    if (auto found = findings.take(); !found.empty()) return found;
  }
  return {};
}

std::size_t invariant_count() { return kInvariants.size(); }

Status verify(const Graph& graph) {
  const auto found = find_violations(graph, 1);
  if (found.empty()) return {};
  return fail(as_error(found.front()));
}

Error as_error(const Violation& violation) {
  return Error{.kind = ErrorKind::kRefused,
               .code = std::string(violation.code),
               .message = violation.message,
               .place = {}};
}

Error as_error(const Violation& violation, const ParsedGraph& parsed) {
  Error error = as_error(violation);
  if (violation.node.valid()) error.place.line = parsed.lines[violation.node.index()];
  return error;
}

std::vector<ImplicitCopy> find_implicit_copies(const Graph& graph) {
  std::vector<ImplicitCopy> copies;
  const auto on_host = [&](TensorId tensor) {
    return graph.residence(graph.storage(tensor)) == Residence::kHost;
  };
  for (const NodeId node : graph.order()) {
    if (graph.op(node) == kSwapIn || graph.runs_on_host(node)) continue;
    if (graph.op(node).starts_with("tf::")) continue;
    for (const Operand& operand : graph.operands(node)) {
      if (operand.tensor.valid() && on_host(operand.tensor)) {
        copies.push_back({operand.tensor, node});
      }
    }
  }
  return copies;
}

}  // namespace ebb

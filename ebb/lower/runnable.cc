#include "ebb/lower/runnable.h"

#include <fmt/format.h>

#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/print.h"
#include "ebb/graph/text_names.h"

namespace ebb {
namespace {

template <class... Args>
tl::unexpected<Error> refuse(fmt::format_string<Args...> format, Args&&... args) {
  return fail(ErrorKind::kBadInput, fmt::format(format, std::forward<Args>(args)...));
}

std::string with_type(const Graph& graph, TensorId tensor) {
  return fmt::format("%{}: {}", spelled(graph.name(tensor)), to_text(graph.type(tensor)));
}

bool is_on_host(const Graph& graph, TensorId tensor) {
  return graph.type(tensor).residence == Residence::kHost;
}

// The verifier looks at swaps, not at this.
bool is_right_snapshot(const Graph& graph, NodeId node) {
  const auto operands = graph.operands(node);
  if (operands.size() != 1 || !operands[0].tensor.valid()) return false;
  if (operands[0].access != Access::kRead || graph.results(node).size() != 1) return false;
  const TensorId copy = graph.results(node)[0];
  return graph.root(graph.storage(copy)) == copy &&
         graph.type_id(copy) == graph.type_id(operands[0].tensor);
}

Status check_operator(const Graph& graph, NodeId node) {
  const std::string_view op = graph.op(node);
  if (op == kEncode || op == kDecode) {
    return refuse(
        "'{}' needs a kernel of a codec, and there are no kernels for codecs yet; "
        "swap without one",
        print(graph, node));
  }
  if (op == kSnapshot && !is_right_snapshot(graph, node)) {
    return refuse("'{}' is no copy: a snapshot takes one tensor and makes one of the same type",
                  print(graph, node));
  }
  return {};
}

Status check_scope(const Graph& graph, NodeId node) {
  const ScopeId scope = graph.scope(node);
  if (!scope.valid()) return {};
  return refuse(
      "'{}' stands in the {} '{}', but a program runs every line exactly once; only straight lines "
      "can be lowered",
      graph.name(node), graph.kind(scope) == ScopeKind::kFrame ? "frame" : "branch",
      graph.name(scope));
}

Status check_operands(const Graph& graph, NodeId node) {
  if (graph.op(node) == kSwapIn) return {};
  for (const Operand& operand : graph.operands(node)) {
    if (!operand.tensor.valid() || !is_on_host(graph, operand.tensor)) continue;
    return refuse(
        "'{}' reads %{}, which lives on the host; programs copy only where the graph says so: let "
        "it read an ebb::swap_in of it",
        print(graph, node), spelled(graph.name(operand.tensor)));
  }
  return {};
}

Status check_results(const Graph& graph, NodeId node) {
  for (const TensorId result : graph.results(node)) {
    if (is_on_host(graph, result) && graph.op(node) != kSwapOut) {
      return refuse(
          "{} lives on the host, where programs hold only what an ebb::swap_out made; keep it on "
          "the device",
          with_type(graph, result));
    }
    if (!extent(graph.type(result))) {
      return refuse(
          "{} has no known size; a program needs every dimension as a number, and elements of a "
          "fixed size",
          with_type(graph, result));
    }
  }
  return {};
}

}  // namespace

Status check_runnable(const Graph& graph) {
  NodeId on_device;  // the first that names one
  for (const NodeId node : graph.order()) {
    for (const auto check : {check_operator, check_scope, check_operands, check_results}) {
      if (Status ok = check(graph, node); !ok) return ok;
    }
    if (graph.device(node).empty()) continue;
    if (!on_device.valid()) on_device = node;
    if (graph.device(node) != graph.device(on_device)) {
      return refuse("'{}' runs on \"{}\" and '{}' on \"{}\"; a program runs on one device",
                    graph.name(on_device), graph.device(on_device), graph.name(node),
                    graph.device(node));
    }
  }
  return {};
}

namespace {

constexpr Bytes kLargest{1'000'000'000'000'000};  // damaged files have more

bool can_lie_so(const Graph& graph, NodeId node, const OtherStrides& other) {
  const auto results = graph.results(node);
  const auto index = static_cast<std::uint32_t>(other.result);
  if (other.result < 0 || index >= results.size()) return false;
  if (graph.root(graph.storage(results[index])) != results[index]) return false;
  TensorType type = graph.type(results[index]);
  if (type.dims.size() != other.strides.size()) return false;
  type.strides = other.strides;
  const auto bytes = extent(type);
  return bytes.has_value() && *bytes <= kLargest;
}

}  // namespace

Status check_recipe(const Graph& graph, NodeId node, const Recipe& recipe) {
  const auto results = graph.results(node);
  std::vector<bool> is_served(results.size());
  const std::size_t count = recipe.requests.size();
  for (std::size_t i = 0; i < count; ++i) {
    const Request& request = recipe.requests[i];
    const auto refuse_it = [&](const std::string& why) {
      return refuse("request {} of {} in the recipe of '{}' {}; measure it again", i + 1, count,
                    print(graph, node), why);
    };
    if (request.size.count <= 0) return refuse_it("is for nothing");
    if (request.result == Request::kKept) continue;
    if (request.result == Request::kTemporary) {
      if (request.freed_after <= i || request.freed_after > count) {
        return refuse_it(
            fmt::format("is temporary, but given back after request {}", request.freed_after));
      }
      continue;
    }
    if (request.result < 0 || static_cast<std::size_t>(request.result) >= results.size()) {
      return refuse_it(fmt::format("is for result {}, of {}", request.result, results.size()));
    }
    const auto index = static_cast<std::uint32_t>(request.result);
    const TensorId result = results[index];
    const std::string name = spelled(graph.name(result));
    if (is_served[index]) return refuse_it(fmt::format("is a second one for %{}", name));
    is_served[index] = true;
    if (const TensorId root = graph.root(graph.storage(result)); root != result) {
      return refuse_it(fmt::format("is for %{}, which shares the bytes of %{}", name,
                                   spelled(graph.name(root))));
    }
    const Bytes needed = extent(graph.type(result)).value_or(Bytes{});
    if (request.size < needed) {
      return refuse_it(fmt::format("has {} for %{}, which needs {}", to_text(request.size), name,
                                   to_text(needed)));
    }
  }
  for (const OtherStrides& other : recipe.otherwise) {
    if (!can_lie_so(graph, node, other)) {
      return refuse("the recipe of '{}' has strides [{}] for result {}; measure it again",
                    print(graph, node), fmt::join(other.strides, ","), other.result);
    }
  }
  return {};
}

}  // namespace ebb

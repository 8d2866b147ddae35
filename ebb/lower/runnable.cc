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

}  // namespace

Status check_runnable(const Graph& graph) {
  NodeId on_device;  // the first that names one
  for (const NodeId node : graph.order()) {
    if (graph.op(node) == kSwapOut || graph.op(node) == kSwapIn) {
      return refuse(
          "'{}' copies between device and host, which programs do not do yet; lower the graph "
          "without its swaps",
          print(graph, node));
    }
    if (const ScopeId scope = graph.scope(node); scope.valid()) {
      return refuse(
          "'{}' stands in the {} '{}', but a program runs every line exactly once; only straight "
          "lines can be lowered",
          graph.name(node), graph.kind(scope) == ScopeKind::kFrame ? "frame" : "branch",
          graph.name(scope));
    }
    if (!graph.device(node).empty()) {
      if (!on_device.valid()) on_device = node;
      if (graph.device(node) != graph.device(on_device)) {
        return refuse("'{}' runs on \"{}\" and '{}' on \"{}\"; a program runs on one device",
                      graph.name(on_device), graph.device(on_device), graph.name(node),
                      graph.device(node));
      }
    }
    for (const TensorId result : graph.results(node)) {
      if (graph.type(result).residence == Residence::kHost) {
        return refuse(
            "{} lives on the host, where programs hold nothing yet; keep it on the device",
            with_type(graph, result));
      }
      if (!extent(graph.type(result))) {
        return refuse(
            "{} has no known size; a program needs every dimension as a number, and elements of a "
            "fixed size",
            with_type(graph, result));
      }
    }
  }
  return {};
}

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
  return {};
}

}  // namespace ebb

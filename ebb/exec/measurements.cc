#include "ebb/exec/measurements.h"

#include "ebb/graph/signature.h"
#include "ebb/lower/runnable.h"

namespace ebb::exec {

Result<Recipe> MeasuredOnce::measure(const Graph& graph, NodeId node) {
  Measured& measured = known_[signature(graph, node)];
  if (measured.recipe && check_recipe(graph, node, *measured.recipe)) {
    if (Status ok = warm_up(graph, node); !ok) return fail(std::move(ok.error()));
    return *measured.recipe;
  }
  auto recipe = kernels_.measure(graph, node);
  if (recipe) {
    measured.recipe = *recipe;
    measured.is_warm = measured.is_new = true;
  }
  return recipe;
}

Status MeasuredOnce::warm_up(const Graph& graph, NodeId node) {
  Measured& measured = known_[signature(graph, node)];
  if (measured.is_warm) return {};
  Status ok = kernels_.warm_up(graph, node);
  measured.is_warm = ok.has_value();
  return ok;
}

Result<Duration> MeasuredOnce::time(const Graph& graph, NodeId node) {
  Measured& measured = known_[signature(graph, node)];
  if (measured.time) return *measured.time;
  auto time = kernels_.time(graph, node);
  if (time) {
    measured.time = *time;
    measured.is_warm = measured.is_new = true;
  }
  return time;
}

}  // namespace ebb::exec

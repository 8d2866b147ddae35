#include "ebb/exec/kernel.h"

#include <string>
#include <unordered_map>

#include <fmt/format.h>

#include "ebb/graph/print.h"
#include "ebb/graph/signature.h"
#include "ebb/lower/program.h"
#include "ebb/lower/runnable.h"

namespace ebb::exec {

Result<std::vector<Recipe>> measure_all(
    const Graph& graph, Kernels& kernels,
    const std::function<void(std::size_t, std::size_t)>& progress) {
  if (Status ok = check_runnable(graph); !ok) return fail(std::move(ok.error()));
  struct Use {
    NodeId node;
    std::size_t signature = 0;
  };
  std::vector<Use> uses;
  std::vector<NodeId> firsts;  // by signature: the first node in line order that has it
  std::unordered_map<std::string, std::size_t> signatures;
  for (const NodeId node : graph.order()) {
    if (instruction_kind(graph, node) != InstructionKind::kKernel) continue;
    const auto [known, is_new] = signatures.try_emplace(signature(graph, node), firsts.size());
    if (is_new) firsts.push_back(node);
    uses.push_back({node, known->second});
  }

  std::vector<Recipe> measured;  // by signature
  measured.reserve(firsts.size());
  for (const NodeId node : firsts) {
    auto recipe = kernels.measure(graph, node);
    if (!recipe) {
      Error error = std::move(recipe.error());
      error.message = fmt::format("{}; when measuring '{}'", error.message, print(graph, node));
      return fail(std::move(error));
    }
    measured.push_back(std::move(*recipe));
    if (progress) progress(measured.size(), firsts.size());
  }

  std::vector<Recipe> recipes(graph.node_count());
  for (const Use& use : uses) recipes[use.node.index()] = measured[use.signature];
  return recipes;
}

}  // namespace ebb::exec

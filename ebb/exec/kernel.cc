#include "ebb/exec/kernel.h"

#include <string>
#include <unordered_map>

#include <fmt/format.h>

#include "ebb/graph/print.h"
#include "ebb/graph/signature.h"
#include "ebb/lower/program.h"
#include "ebb/lower/runnable.h"

namespace ebb::exec {

namespace {

using TellProgress = std::function<void(std::size_t, std::size_t)>;

// The kernels of a graph by their signatures.
struct Signatures {
  struct Use {
    NodeId node;
    std::size_t signature = 0;
  };
  std::vector<Use> uses;
  std::vector<NodeId> firsts;  // by signature: the first node in line order that has it
  std::vector<std::string> texts;

  explicit Signatures(const Graph& graph) {
    std::unordered_map<std::string, std::size_t> known;
    for (const NodeId node : graph.order()) {
      if (instruction_kind(graph, node) != InstructionKind::kKernel) continue;
      const auto [found, is_new] = known.try_emplace(signature(graph, node), firsts.size());
      if (is_new) {
        firsts.push_back(node);
        texts.push_back(found->first);
      }
      uses.push_back({node, found->second});
    }
  }
};

Error in_context(Error error, const Graph& graph, NodeId node) {
  error.message = fmt::format("{}; when measuring '{}'", error.message, print(graph, node));
  return error;
}

}  // namespace

Result<std::vector<Recipe>> measure_all(const Graph& graph, Kernels& kernels,
                                        const TellProgress& progress) {
  if (Status ok = check_runnable(graph); !ok) return fail(std::move(ok.error()));
  const Signatures signatures(graph);
  std::vector<Recipe> measured;  // by signature
  measured.reserve(signatures.firsts.size());
  for (const NodeId node : signatures.firsts) {
    auto recipe = kernels.measure(graph, node);
    if (!recipe) return fail(in_context(std::move(recipe.error()), graph, node));
    measured.push_back(std::move(*recipe));
    if (progress) progress(measured.size(), signatures.firsts.size());
  }
  std::vector<Recipe> recipes(graph.node_count());
  for (const auto& use : signatures.uses) recipes[use.node.index()] = measured[use.signature];
  return recipes;
}

Result<Profile> time_all(const Graph& graph, Kernels& kernels, std::span<const Recipe> recipes,
                         Bytes alignment, const TellProgress& progress) {
  const Signatures signatures(graph);
  std::vector<ProfiledOperation> operations;
  operations.reserve(signatures.firsts.size());
  for (const NodeId node : signatures.firsts) {
    auto time = kernels.time(graph, node);
    if (!time) return fail(in_context(std::move(time.error()), graph, node));
    const Bytes workspace = lay_out_workspace(recipes[node.index()], alignment).size;
    operations.push_back({signatures.texts[operations.size()], *time, workspace});
    if (progress) progress(operations.size(), signatures.firsts.size());
  }
  return Profile::make("measured", std::move(operations));
}

}  // namespace ebb::exec

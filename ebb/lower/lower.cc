// One walk over the lines makes instructions and what they need; plan/arena.h says where.
#include <algorithm>

#include "ebb/base/check.h"
#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/scalar_op.h"
#include "ebb/graph/views.h"
#include "ebb/lower/program.h"
#include "ebb/lower/runnable.h"
#include "ebb/lower/waits.h"
#include "ebb/plan/arena.h"

namespace ebb {
namespace {

class Lowering {
 public:
  Lowering(const Graph& graph, std::span<const Recipe> recipes, const LowerOptions& options)
      : graph_(graph), recipes_(recipes), options_(options) {}

  Result<Program> run() {
    if (Status ok = check_runnable(graph_); !ok) return fail(std::move(ok.error()));
    for (const NodeId node : graph_.order()) {
      if (instruction_kind(graph_, node) != InstructionKind::kKernel) continue;
      if (Status ok = check_recipe(graph_, node, recipe(node)); !ok) {
        return fail(std::move(ok.error()));
      }
    }
    needs_ = needs_of(graph_, std::vector<Bytes>(graph_.node_count()));
    needs_.on_host.assign(graph_.node_count(), false);  // kernels ask for it in the arena
    measure_storages();
    add_instructions();
    place_all();
    add_waits(graph_, program_);
    return std::move(program_);
  }

 private:
  [[nodiscard]] const Recipe& recipe(NodeId node) const { return recipes_[node.index()]; }

  // A storage has what its type needs, and all that its kernel asks for.
  void measure_storages() {
    for (const NodeId node : graph_.order()) {
      if (instruction_kind(graph_, node) != InstructionKind::kKernel) continue;
      for (const TensorId result : graph_.results(node)) {
        needs_.can_be_placed[graph_.storage(result).index()] = false;
      }
      for (const Request& request : recipe(node).requests) {
        if (request.result < 0) continue;
        const std::size_t storage = storage_of(node, request).index();
        needs_.storages[storage] = std::max(needs_.storages[storage], request.size);
        needs_.can_be_placed[storage] = request.size == needs_.storages[storage];
      }
    }
  }

  [[nodiscard]] StorageId storage_of(NodeId node, const Request& request) const {
    return graph_.storage(graph_.results(node)[static_cast<std::uint32_t>(request.result)]);
  }

  void add_instructions() {
    for (const NodeId node : graph_.order()) {
      const auto kind = instruction_kind(graph_, node);
      if (!kind) continue;
      Instruction instruction{.kind = *kind, .lane = lane_of(graph_.op(node)), .node = node};
      instruction.first_serving = static_cast<std::uint32_t>(program_.servings.size());
      if (*kind == InstructionKind::kKernel) add_servings(node);
      instruction.serving_count =
          static_cast<std::uint32_t>(program_.servings.size()) - instruction.first_serving;
      program_.instructions.push_back(instruction);
    }
  }

  static Lane lane_of(std::string_view op) {
    if (op == kSwapOut) return Lane::kToHost;
    return op == kSwapIn ? Lane::kToDevice : Lane::kCompute;
  }

  // Places of results and workspaces are filled in when they are known.
  void add_servings(NodeId node) {
    const Workspace workspace = lay_out_workspace(recipe(node), options_.alignment);
    needs_.workspaces[node.index()] = workspace.size;
    for (std::size_t i = 0; i < recipe(node).requests.size(); ++i) {
      const Request& request = recipe(node).requests[i];
      const auto serving = static_cast<std::uint32_t>(program_.servings.size());
      const bool kept = request.result == Request::kKept;  // by a library: docs/decisions, 56
      program_.servings.push_back(
          {.size = request.size, .offset = kept ? Serving::kElsewhere : Bytes{}});
      if (request.result >= 0) {
        results_served_.push_back({serving, storage_of(node, request)});
      } else if (!kept) {
        temporaries_served_.push_back({serving, node, workspace.offsets[i]});
      }
    }
  }

  void place_all() {
    const Arena arena = arrange(graph_, needs_,
                                {.alignment = options_.alignment,
                                 .reuse_in_place = options_.reuse_in_place,
                                 .budget = options_.budget});
    for (const ResultServed& served : results_served_) {
      program_.servings[served.serving].offset = arena.storages[served.storage.index()];
    }
    for (const TemporaryServed& served : temporaries_served_) {
      program_.servings[served.serving].offset =
          arena.workspaces[served.node.index()] + served.inside;
    }
    program_.offsets.reserve(graph_.tensor_count());
    for (const TensorId tensor : graph_.tensors()) {
      program_.offsets.push_back(arena.storages[graph_.storage(tensor).index()] +
                                 graph_.offset(tensor));
    }
    program_.arena_size = arena.size;
    program_.state_size = arena.state_size;
    program_.bound = arena.bound;
    program_.host_size = arena.host_size;
    program_.host_bound = arena.host_bound;
    program_.reused_in_place = arena.reused_in_place;
  }

  struct ResultServed {
    std::uint32_t serving = 0;
    StorageId storage;
  };
  struct TemporaryServed {
    std::uint32_t serving = 0;
    NodeId node;
    Bytes inside;  // from the begin of the node's workspace
  };

  const Graph& graph_;
  std::span<const Recipe> recipes_;
  const LowerOptions& options_;
  ArenaNeeds needs_;
  std::vector<ResultServed> results_served_;
  std::vector<TemporaryServed> temporaries_served_;
  Program program_;
};

}  // namespace

std::optional<InstructionKind> instruction_kind(const Graph& graph, NodeId node) {
  if (!graph.is_op(node)) return std::nullopt;
  const std::string_view op = graph.op(node);
  if (is_host_arithmetic(op)) return InstructionKind::kArithmetic;
  if (op == kSwapOut || op == kSwapIn || op == kSnapshot) return InstructionKind::kCopy;
  if (makes_only_views(graph, node)) return std::nullopt;
  return InstructionKind::kKernel;
}

Result<Program> lower(const Graph& graph, std::span<const Recipe> recipes,
                      const LowerOptions& options) {
  EBB_CHECK(recipes.size() == graph.node_count(), "{} recipes for {} nodes", recipes.size(),
            graph.node_count());
  EBB_CHECK(
      options.alignment.count > 0 && (options.alignment.count & (options.alignment.count - 1)) == 0,
      "the alignment {} is no power of two", options.alignment.count);
  return Lowering(graph, recipes, options).run();
}

}  // namespace ebb

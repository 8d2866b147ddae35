// One walk over the lines makes instructions and collects who needs bytes from when to when; the
// layout (plan/layout.h) then says where, in the arena and in the host slab apart. State does not
// take part in it: it lies in front, whatever else there is.
#include <algorithm>

#include "ebb/base/check.h"
#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/scalar_op.h"
#include "ebb/lower/in_place.h"
#include "ebb/lower/program.h"
#include "ebb/lower/runnable.h"
#include "ebb/order/liveness.h"
#include "ebb/plan/layout.h"

namespace ebb {
namespace {

bool is_state(NodeKind origin) { return origin == NodeKind::kParam || origin == NodeKind::kConst; }

class Lowering {
 public:
  Lowering(const Graph& graph, std::span<const Recipe> recipes, const LowerOptions& options)
      : graph_(graph),
        recipes_(recipes),
        options_(options),
        sizes_(graph.storage_count()),
        offsets_(graph.storage_count()),
        buffer_of_(graph.storage_count(), kNoBuffer) {}

  Result<Program> run() {
    if (Status ok = check_runnable(graph_); !ok) return fail(std::move(ok.error()));
    for (const NodeId node : graph_.order()) {
      if (instruction_kind(graph_, node) != InstructionKind::kKernel) continue;
      if (Status ok = check_recipe(graph_, node, recipe(node)); !ok) {
        return fail(std::move(ok.error()));
      }
    }
    measure_storages();
    place_state();
    add_storages();
    add_instructions();
    lay_out_arena();
    lay_out_host();
    fill_in_offsets();
    return std::move(program_);
  }

 private:
  static constexpr std::uint32_t kNoBuffer = 0xFFFFFFFF;

  [[nodiscard]] const Recipe& recipe(NodeId node) const { return recipes_[node.index()]; }

  [[nodiscard]] Bytes aligned(Bytes bytes) const {
    const std::int64_t mask = options_.alignment.count - 1;
    return Bytes{(bytes.count + mask) & ~mask};
  }

  // A storage has what its type needs, and all that its kernel asks for.
  void measure_storages() {
    for (const StorageId storage : graph_.storages()) {
      sizes_[storage.index()] = graph_.size(storage).value_or(Bytes{});  // known: check_runnable
    }
    for (const NodeId node : graph_.order()) {
      if (instruction_kind(graph_, node) != InstructionKind::kKernel) continue;
      for (const Request& request : recipe(node).requests) {
        if (request.result < 0) continue;
        Bytes& size = sizes_[storage_of(node, request).index()];
        size = std::max(size, request.size);
      }
    }
  }

  [[nodiscard]] StorageId storage_of(NodeId node, const Request& request) const {
    return graph_.storage(graph_.results(node)[static_cast<std::uint32_t>(request.result)]);
  }

  void place_state() {
    Bytes end;
    for (const NodeId node : graph_.order()) {
      if (!is_state(graph_.kind(node))) continue;
      const TensorId tensor = graph_.results(node)[0];
      const StorageId storage = graph_.storage(tensor);
      if (graph_.root(storage) != tensor) continue;
      offsets_[storage.index()] = end;
      end += aligned(sizes_[storage.index()]);
    }
    program_.state_size = end;
  }

  void add_storages() {
    const std::vector<Life> lives = find_lives(graph_);
    std::vector<StorageId> takes_over(graph_.storage_count());
    if (options_.reuse_in_place) takes_over = find_takeovers(graph_, recipes_, lives, sizes_);
    // In line order, so that whose bytes are taken over has a buffer already.
    for (const NodeId node : graph_.order()) {
      for (const TensorId tensor : graph_.results(node)) {
        const StorageId storage = graph_.storage(tensor);
        const std::size_t i = storage.index();
        if (graph_.root(storage) != tensor || is_state(graph_.origin(storage))) continue;
        if (sizes_[i].count == 0) continue;
        if (graph_.residence(storage) == Residence::kHost) {
          buffer_of_[i] = add_buffer(host_buffers_, sizes_[i], lives[i]);
        } else if (takes_over[i].valid()) {
          buffer_of_[i] = buffer_of_[takes_over[i].index()];
          buffers_[buffer_of_[i]].last = lives[i].last;
          ++program_.reused_in_place;
        } else {
          buffer_of_[i] = add_buffer(buffers_, sizes_[i], lives[i]);
        }
      }
    }
  }

  std::uint32_t add_buffer(std::vector<LayoutBuffer>& buffers, Bytes size, Life life) const {
    buffers.push_back({.size = aligned(size), .first = life.first, .last = life.last, .at = {}});
    return static_cast<std::uint32_t>(buffers.size() - 1);
  }

  void add_instructions() {
    std::uint32_t position = 0;
    for (const NodeId node : graph_.order()) {
      if (const auto kind = instruction_kind(graph_, node)) {
        Instruction instruction{.kind = *kind, .node = node};
        instruction.first_serving = static_cast<std::uint32_t>(program_.servings.size());
        if (*kind == InstructionKind::kKernel) add_servings(node, position);
        instruction.serving_count =
            static_cast<std::uint32_t>(program_.servings.size()) - instruction.first_serving;
        program_.instructions.push_back(instruction);
      }
      ++position;
    }
  }

  // Places of results and workspaces are filled in when they are known.
  void add_servings(NodeId node, std::uint32_t position) {
    const auto first = static_cast<std::uint32_t>(program_.servings.size());
    const auto count = static_cast<std::uint32_t>(recipe(node).requests.size());
    std::vector<LayoutBuffer> temporaries;
    std::vector<std::uint32_t> servings;  // of the temporaries
    for (std::uint32_t i = 0; i < count; ++i) {
      const Request& request = recipe(node).requests[i];
      const bool kept = request.result == Request::kKept;
      program_.servings.push_back(
          {.size = request.size, .offset = kept ? Serving::kElsewhere : Bytes{}});
      if (request.result >= 0) {
        results_served_.push_back({first + i, storage_of(node, request)});
      } else if (!kept) {
        temporaries.push_back(
            {.size = aligned(request.size), .first = i, .last = request.freed_after - 1, .at = {}});
        servings.push_back(first + i);
      }
    }
    if (temporaries.empty()) return;
    const Layout inside = lay_out(temporaries, {.alignment = options_.alignment});
    const std::uint32_t workspace = add_buffer(buffers_, inside.size, {position, position});
    for (std::size_t i = 0; i < servings.size(); ++i) {
      temporaries_served_.push_back({servings[i], workspace, inside.offsets[i]});
    }
  }

  // Gives the storages on one side their places.
  void place_storages(Residence side, Bytes begin, const Layout& layout) {
    for (const StorageId storage : graph_.storages()) {
      const std::uint32_t buffer = buffer_of_[storage.index()];
      if (buffer == kNoBuffer || graph_.residence(storage) != side) continue;
      offsets_[storage.index()] = begin + layout.offsets[buffer];
    }
  }

  void lay_out_arena() {
    const Layout layout = lay_out(buffers_, {.alignment = options_.alignment});
    place_storages(Residence::kDevice, program_.state_size, layout);
    for (const ResultServed& served : results_served_) {
      program_.servings[served.serving].offset = offsets_[served.storage.index()];
    }
    for (const TemporaryServed& served : temporaries_served_) {
      program_.servings[served.serving].offset =
          program_.state_size + layout.offsets[served.workspace] + served.inside;
    }
    program_.arena_size = program_.state_size + layout.size;
    program_.bound = program_.state_size + layout.bound;
  }

  void lay_out_host() {
    const Layout layout = lay_out(host_buffers_, {.alignment = options_.alignment});
    place_storages(Residence::kHost, Bytes{}, layout);
    program_.host_size = layout.size;
    program_.host_bound = layout.bound;
  }

  void fill_in_offsets() {
    program_.offsets.reserve(graph_.tensor_count());
    for (const TensorId tensor : graph_.tensors()) {
      program_.offsets.push_back(offsets_[graph_.storage(tensor).index()] + graph_.offset(tensor));
    }
  }

  struct ResultServed {
    std::uint32_t serving = 0;
    StorageId storage;
  };
  struct TemporaryServed {
    std::uint32_t serving = 0;
    std::uint32_t workspace = 0;  // a buffer
    Bytes inside;                 // from its begin
  };

  const Graph& graph_;
  std::span<const Recipe> recipes_;
  const LowerOptions& options_;
  std::vector<Bytes> sizes_;              // by storage
  std::vector<Bytes> offsets_;            // by storage, in its block; empty ones lie at 0
  std::vector<std::uint32_t> buffer_of_;  // by storage, among those of its side
  std::vector<LayoutBuffer> buffers_;     // in the arena
  std::vector<LayoutBuffer> host_buffers_;
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
  const auto results = graph.results(node);
  const bool is_view =
      !results.empty() && graph.effect(node) == Effect::kPure && !graph.updates_something(node) &&
      std::all_of(results.begin(), results.end(),
                  [&](TensorId result) { return graph.root(graph.storage(result)) != result; });
  return is_view ? std::nullopt : std::optional(InstructionKind::kKernel);
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

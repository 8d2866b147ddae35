#include "ebb/plan/arena.h"

#include <utility>

#include "ebb/order/in_place.h"
#include "ebb/order/liveness.h"
#include "ebb/order/variables.h"
#include "ebb/plan/layout.h"

namespace ebb {
namespace {

constexpr std::uint32_t kNoBuffer = 0xFFFFFFFF;

bool is_state(NodeKind origin) { return origin == NodeKind::kParam || origin == NodeKind::kConst; }

class Arranger {
 public:
  Arranger(const Graph& graph, const ArenaNeeds& needs, const ArenaOptions& options)
      : graph_(graph),
        needs_(needs),
        options_(options),
        buffer_of_(graph.storage_count(), kNoBuffer),
        workspace_of_(graph.node_count(), kNoBuffer) {
    arena_.storages.resize(graph.storage_count());
    arena_.workspaces.resize(graph.node_count());
  }

  Arena run() {
    place_state();
    add_storages();
    add_workspaces();
    lay_out_arena();
    lay_out_host();
    return std::move(arena_);
  }

 private:
  [[nodiscard]] Bytes aligned(Bytes bytes) const {
    const std::int64_t mask = options_.alignment.count - 1;
    return Bytes{(bytes.count + mask) & ~mask};
  }

  void place_state() {
    arena_.state_size = aligned(needs_.variables);
    for (const NodeId node : graph_.order()) {
      if (!is_state(graph_.kind(node))) continue;
      const TensorId tensor = graph_.results(node)[0];
      const StorageId storage = graph_.storage(tensor);
      if (graph_.root(storage) != tensor || graph_.residence(storage) == Residence::kHost) continue;
      arena_.storages[storage.index()] = arena_.state_size;
      arena_.state_size += aligned(needs_.storages[storage.index()]);
    }
  }

  void add_storages() {
    const std::vector<Life> lives = find_lives(graph_);
    std::vector<StorageId> takes_over(graph_.storage_count());
    if (options_.reuse_in_place) {
      takes_over = find_takeovers(graph_, lives, needs_.storages, needs_.can_be_placed);
    }
    // In line order, so that whose bytes are taken over has a buffer already.
    for (const NodeId node : graph_.order()) {
      for (const TensorId tensor : graph_.results(node)) {
        const StorageId storage = graph_.storage(tensor);
        const std::size_t i = storage.index();
        if (graph_.root(storage) != tensor || needs_.storages[i].count == 0) continue;
        if (graph_.residence(storage) == Residence::kHost) {
          buffer_of_[i] = add_buffer(host_buffers_, needs_.storages[i], lives[i]);
        } else if (is_state(graph_.origin(storage))) {
          continue;
        } else if (takes_over[i].valid()) {
          buffer_of_[i] = buffer_of_[takes_over[i].index()];
          buffers_[buffer_of_[i]].last = lives[i].last;
          ++arena_.reused_in_place;
        } else {
          buffer_of_[i] = add_buffer(buffers_, needs_.storages[i], lives[i]);
        }
      }
    }
  }

  void add_workspaces() {
    std::uint32_t position = 0;
    for (const NodeId node : graph_.order()) {
      const Bytes size = needs_.workspaces[node.index()];
      if (size.count > 0) {
        auto& buffers = needs_.on_host[node.index()] ? host_buffers_ : buffers_;
        workspace_of_[node.index()] = add_buffer(buffers, size, {position, position});
      }
      ++position;
    }
  }

  std::uint32_t add_buffer(std::vector<LayoutBuffer>& buffers, Bytes size, Life life) const {
    buffers.push_back({.size = aligned(size), .first = life.first, .last = life.last, .at = {}});
    return static_cast<std::uint32_t>(buffers.size() - 1);
  }

  void lay_out_arena() {
    Layout layout = lay_out(buffers_, {.alignment = options_.alignment});
    const Bytes room = options_.budget - arena_.state_size;
    if (layout.bound <= room && room < layout.size) {
      Layout aimed = lay_out(buffers_, {.alignment = options_.alignment, .enough = room});
      if (aimed.size < layout.size) layout = std::move(aimed);
    }
    place(Residence::kDevice, arena_.state_size, layout);
    arena_.size = arena_.state_size + layout.size;
    arena_.bound = arena_.state_size + layout.bound;
  }

  void lay_out_host() {
    const Layout layout = lay_out(host_buffers_, {.alignment = options_.alignment});
    place(Residence::kHost, Bytes{}, layout);
    arena_.host_size = layout.size;
    arena_.host_bound = layout.bound;
  }

  // Gives what is on one side its places.
  void place(Residence side, Bytes begin, const Layout& layout) {
    for (const StorageId storage : graph_.storages()) {
      const std::uint32_t buffer = buffer_of_[storage.index()];
      if (buffer == kNoBuffer || graph_.residence(storage) != side) continue;
      arena_.storages[storage.index()] = begin + layout.offsets[buffer];
    }
    for (const NodeId node : graph_.order()) {
      const std::uint32_t buffer = workspace_of_[node.index()];
      if (buffer == kNoBuffer || needs_.on_host[node.index()] != (side == Residence::kHost))
        continue;
      arena_.workspaces[node.index()] = begin + layout.offsets[buffer];
    }
  }

  const Graph& graph_;
  const ArenaNeeds& needs_;
  const ArenaOptions& options_;
  std::vector<std::uint32_t> buffer_of_;     // by storage, among those of its side
  std::vector<std::uint32_t> workspace_of_;  // by node, likewise
  std::vector<LayoutBuffer> buffers_;        // in the arena
  std::vector<LayoutBuffer> host_buffers_;
  Arena arena_;
};

}  // namespace

ArenaNeeds needs_of(const Graph& graph, std::span<const Bytes> workspaces) {
  ArenaNeeds needs;
  const Variables variables = find_variables(graph);
  needs.variables = variables.device_bytes;
  for (const StorageId storage : graph.storages()) {
    needs.storages.push_back(variables.held(graph, storage).value_or(Bytes{}));
  }
  needs.workspaces.assign(workspaces.begin(), workspaces.end());
  for (const NodeId node : graph.nodes()) needs.on_host.push_back(graph.runs_on_host(node));
  needs.can_be_placed.assign(graph.storage_count(), true);
  return needs;
}

Arena arrange(const Graph& graph, const ArenaNeeds& needs, const ArenaOptions& options) {
  return Arranger(graph, needs, options).run();
}

}  // namespace ebb

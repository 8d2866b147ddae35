// What a rewrite does, as values: printed, parsed, stored in a plan, replayed.
//
//   swap %h for gh, gw after s                       one swap-out, one swap-in for both readers
//   swap %h for gh after s for gw after gx as bf16   a swap-in for each; encoded on the way
//   swap %h for gh after s as bf16 on host           encoded while it waits there
//   recompute %a for gw after s                      computed again right before its first reader
//   delay gw after gx                                a control edge
//   move h.host below b                              its line goes down
//   split gx                                         two calls, of some of its results each
//
// Ids are those of the graph as rewritten so far, and names in the text too: each decision is read
// when the ones before it have been applied.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/graph/graph.h"

namespace ebb {

// Some readers of a storage, and the operation after which their copy is brought back (or made).
struct ReaderGroup {
  std::vector<NodeId> readers;  // operations, not views; all their edges from the storage are meant
  NodeId trigger;

  friend bool operator==(const ReaderGroup&, const ReaderGroup&) = default;
};

// Where a codec runs.
enum class CodecSide : std::uint8_t {
  kDevice,  // before the swap-out and after the swap-in: saves the link and the host's memory
  kHost,    // after the swap-out and before the swap-in: saves the host's memory and device time
};

struct SwapDecision {
  TensorId tensor;  // whose storage moves, in the version that this tensor is
  std::vector<ReaderGroup> groups;
  std::string codec;  // empty: as it is
  CodecSide codec_side = CodecSide::kDevice;

  friend bool operator==(const SwapDecision&, const SwapDecision&) = default;
};

struct RecomputeDecision {
  TensorId tensor;
  std::vector<ReaderGroup> groups;

  friend bool operator==(const RecomputeDecision&, const RecomputeDecision&) = default;
};

struct DelayDecision {
  NodeId node;
  NodeId after;

  friend bool operator==(const DelayDecision&, const DelayDecision&) = default;
};

struct MoveDecision {
  NodeId node;   // a swap-out or a swap-in
  NodeId below;  // right below whose line it is to stand

  friend bool operator==(const MoveDecision&, const MoveDecision&) = default;
};

struct SplitDecision {
  NodeId node;  // an aten::convolution_backward

  friend bool operator==(const SplitDecision&, const SplitDecision&) = default;
};

using Decision =
    std::variant<SwapDecision, RecomputeDecision, DelayDecision, MoveDecision, SplitDecision>;

std::string to_text(const Graph& graph, const Decision& decision);
// One line. Errors have the column, and suggest the nearest name.
[[nodiscard]] Result<Decision> parse_decision(const Graph& graph, std::string_view text);

}  // namespace ebb

// Which bytes are alive at which line, and what that adds up to.
//
// The model, stated once: lines run one after the other. A storage is there from the line that
// makes it to the last line that touches it, both included; in-place updates touch the storage they
// share, and so does who reads a view, but not the line that makes a view, which runs no code.
// Parameters and constants are there throughout, inputs from the start, what the step returns until
// the end. A workspace is there during its own line, on the side where the line runs. A copy has
// its own storage on its own side of the link; copies over the link run beside the lines, so what a
// swap-out makes is there from the line that made what it copies, when the copy may begin, and what
// a swap-in reads until the first line that reads what it makes. All accelerators together are "the
// device": a plan is made for one at a time. Storages of unknown size count as nothing, and are
// counted. What TensorFlow copies from the host for an operation to read (arrivals.h) is on the
// device as well. What happens within a line (copies that take time, bytes reused in place) is the
// simulator's business. O(nodes + edges).
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/base/units.h"
#include "ebb/graph/graph.h"

namespace ebb {

// The first and the last line that need a storage, as positions in graph.order().
struct Life {
  std::uint32_t first = 0;
  std::uint32_t last = 0;

  [[nodiscard]] bool covers(std::uint32_t position) const {
    return first <= position && position <= last;
  }
};

// By storage. The graph must pass the verifier.
std::vector<Life> find_lives(const Graph& graph);

struct MemoryCurve {
  std::vector<Bytes> device;  // by position in line order, workspace included
  std::vector<Bytes> host;
  std::uint32_t peak_position = 0;  // the first line at which the device holds most
  Bytes peak;
  Bytes host_peak;
  std::size_t unknown_sizes = 0;  // storages left out
};

MemoryCurve memory_curve(const Graph& graph, const std::vector<Life>& lives);

// The storages of known size on the device at a line, largest first, then in order of their ids.
struct Resident {
  StorageId storage;
  Bytes size;
};
std::vector<Resident> residents_at(const Graph& graph, const std::vector<Life>& lives,
                                   std::uint32_t position);

// The operation that needs most by itself: its inputs, outputs and workspace on the device, less
// what a result could take over in place (in_place.h). No budget can be smaller, whatever is moved.
struct Floor {
  NodeId node;  // not valid in a graph without operations
  Bytes bytes;
};
Floor find_floor(const Graph& graph);

}  // namespace ebb

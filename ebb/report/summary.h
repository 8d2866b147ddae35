// What `ebb show` tells of a graph: how much there is, how it is ordered, what it needs.
#pragma once

#include <string>
#include <vector>

#include "ebb/base/units.h"
#include "ebb/graph/graph.h"
#include "ebb/order/liveness.h"

namespace ebb {

struct Summary {
  struct Counts {
    std::size_t nodes = 0;
    std::size_t operations = 0;
    std::size_t inputs = 0;
    std::size_t parameters = 0;
    std::size_t constants = 0;
    std::size_t scalars = 0;
    std::size_t tensors = 0;
    std::size_t storages = 0;
    std::size_t updates = 0;
    std::size_t control_edges = 0;
    std::size_t random = 0;
    std::size_t effects = 0;
    std::size_t swap_outs = 0;
    std::size_t swap_ins = 0;
    std::size_t clones = 0;
  };
  // The bytes on the device at the peak, by what they are.
  struct Shares {
    Bytes parameters;
    Bytes constants;
    Bytes inputs;
    Bytes intermediates;
    Bytes workspace;
  };
  struct LongLived {
    TensorId tensor;
    std::uint32_t lifetime = 0;  // levels of γ from producer to last reader
    Bytes size;
  };

  Counts counts;
  std::uint32_t highest_gamma = 0;
  std::uint32_t widest_level = 0;  // the γ that most operations share
  std::size_t widest_count = 0;
  std::vector<LongLived> long_lived;  // intermediates, largest lifetime × size first
  MemoryCurve memory;
  Shares at_peak;
  std::vector<Resident> residents_at_peak;  // largest first
  Floor floor;
  std::size_t implicit_copies = 0;
  std::size_t devices = 0;  // different ones, the default included; their memory is added up
  Duration known_time{};    // the sum of all `takes`
  std::size_t operations_timed = 0;  // how many say what they take
};

// Of a graph that the verifier accepts.
Summary summarize(const Graph& graph);

// For people, a screenful.
std::string to_text(const Graph& graph, const Summary& summary);
// For programs: one JSON object; docs/command-line.md lists its fields.
std::string to_json(const Graph& graph, const Summary& summary);
// Every line with its γ and the memory it runs in.
std::string lines_table(const Graph& graph, const Summary& summary);

// "parameter", "constant", "input" or "intermediate".
std::string_view role(const Graph& graph, StorageId storage);

}  // namespace ebb

// The variables behind TensorFlow's handles: a handle has no size of its own, but its variable
// takes memory throughout the step, and what reads it whole (`ReadVariableOp`) hands out those
// bytes.
#pragma once

#include <optional>
#include <vector>

#include "ebb/base/units.h"
#include "ebb/graph/graph.h"

namespace ebb {

struct Variable {
  StorageId handle;
  Bytes size;
};

struct Variables {
  // Those in device memory whose size is known: from who reads or assigns them whole, or from the
  // gradient of an optimizer that updates them. In the order of their handles.
  std::vector<Variable> on_device;
  Bytes device_bytes;         // of these
  std::vector<bool> is_read;  // by storage: these bytes are a variable's

  // What a storage takes besides its variable's bytes; nullopt where that is not known.
  [[nodiscard]] std::optional<Bytes> held(const Graph& graph, StorageId storage) const {
    return is_read[storage.index()] ? std::optional(Bytes{}) : graph.size(storage);
  }
};

// O(nodes + edges).
Variables find_variables(const Graph& graph);

// Whether what it makes are the bytes of a variable: `ReadVariableOp`, or `Identity` of a
// reference.
bool reads_whole_variable(const Graph& graph, NodeId node);

}  // namespace ebb

// What TensorFlow copies to the device because an operation there reads it: a batch that is fed
// from the host, or what an operation of the host has made.
//
// Nobody asks for these copies. An edge from one device to another is a `_Recv`, which gets its
// bytes when the tensor is there, and keeps them until the last operation of the device that reads
// it; nothing can be done about them. Steps of PyTorch have none.
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/base/units.h"
#include "ebb/graph/graph.h"

namespace ebb {

// Whether the operation reads the tensor, which the host has, from a copy on its own device.
bool reads_arrival(const Graph& graph, NodeId reader, TensorId tensor);

struct Arrival {
  StorageId storage;  // on the host
  Bytes size;
  std::uint32_t first = 0;  // lines: where it is made, and where the device reads it last
  std::uint32_t last = 0;
};

// Those of known size, in the order of their storages. O(nodes + edges).
std::vector<Arrival> find_arrivals(const Graph& graph);

}  // namespace ebb

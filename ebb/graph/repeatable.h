// What may give something else when it runs a second time, though it is called pure. Such an
// operation is never computed again: rules refuse it, and verifier and proof do not accept it.
#pragma once

#include <string_view>

#include "ebb/graph/graph.h"

namespace ebb {

// Whether an operator of TensorFlow's hands on the bytes of its operands: result k has those of
// operand k. Not those that steer control flow, which do so as well.
bool hands_on_bytes(std::string_view op);

// Whether what it makes are the bytes of a variable, not a copy: `tf::Identity` of a reference. Who
// updates the variable changes them. (What `ReadVariableOp` gives is kept as it is by TensorFlow.)
bool hands_out_variable(const Graph& graph, NodeId node);

// The first operand that is a handle, or the bytes that one hands out, behind which anything may
// have changed; not valid when there is none.
TensorId find_handle(const Graph& graph, NodeId node);

// Whether it is one of the nodes that loops and branches are made of, as tf::Merge: what it gives
// depends on where control comes from, and a loop's back edge names it (docs/decisions, 12).
bool steers_control_flow(const Graph& graph, NodeId node);

}  // namespace ebb

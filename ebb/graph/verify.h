// Whether a graph is right. The invariants have numbers, which messages, tests and docs/errors.md
// cite; each is a function of its own (verify_checks.h). The verifier looks at the graph only, not
// at how it came about, and takes time linear in its size.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/graph/graph.h"

namespace ebb {

struct ParsedGraph;

struct Violation {
  std::string_view code;  // "V09"
  NodeId node;            // where it shows; not valid when the graph as a whole is wrong
  std::string message;    // one line that names both parties
};

// Every violation of the first invariant that has any, at most `limit` of them. Invariants are
// checked in order, structure first; later ones rely on earlier ones, so that what follows from one
// defect is not reported as more.
std::vector<Violation> find_violations(const Graph& graph, std::size_t limit = 10);

std::size_t invariant_count();

// The first violation as an error of kind kRefused.
[[nodiscard]] Status verify(const Graph& graph);

// The violation as an error that has the place of its line in the text.
Error as_error(const Violation& violation);
Error as_error(const Violation& violation, const ParsedGraph& parsed);

// Legal, but worth saying: an operation of the device that reads a tensor of the host makes the
// framework copy it on the spot (the paper's equation 2). Not so TensorFlow's: its kernels want
// some operands on the host, handles and shapes above all.
struct ImplicitCopy {
  TensorId tensor;
  NodeId reader;
};
std::vector<ImplicitCopy> find_implicit_copies(const Graph& graph);

}  // namespace ebb

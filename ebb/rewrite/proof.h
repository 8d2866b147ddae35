// Whether a rewritten graph computes what the original computes. Nothing here knows how rewriting
// is done: the two graphs are all there is to look at, and names say which node is which.
//
// What rewriting may have added, all of it erased by naming the tensor of the original that each
// tensor holds:
//   copies          ebb::swap_out, ebb::swap_in, ebb::snapshot hold what their operand holds
//   codecs          ebb::decode of an ebb::encode by the same codec holds what was encoded, if that
//                   gives back every bit (codec.h)
//   clones          `clone of n`, of operands that hold what n's operands hold, holds n's results;
//                   clones of views lie in the bytes of a copy as the views do in the original's
//   control edges   any that close no cycle
//   splits          an aten::convolution_backward may be two calls, if they are those that
//                   proof_splits.h makes of it
// The original may have copies and clones of its own, as the outcome of an earlier rewriting; what
// they hold is found in the same way (proof_values.h).
// Everything else is the original's: each of its nodes once, with the same operator, attributes,
// effect, device, scope, clauses and results, reading operands that hold the same and updating the
// variables themselves; the same outputs in the same order.
//
// Why that is enough. A tensor is one version of its bytes, and in a graph that the verifier
// accepts everybody who reads a version, added or not, runs before its update (V13, V16), so what
// holds the same has the same value in every order that runs. What the world sees (random
// operations and effects) stands in the same order of lines, and if the original lets one such
// operation wait for another, however indirectly, so does the rewritten graph. Other lines may
// stand in any order that runs.
//
// Cost: O(nodes + edges) time and memory, and a question to Reachability for each control edge that
// is neither there any more nor needless.
#pragma once

#include <cstddef>
#include <string>

#include "ebb/base/result.h"
#include "ebb/graph/graph.h"

namespace ebb {

struct ProofOptions {
  bool allow_lossy = false;  // take what a lossy codec gives back for what was encoded
  bool is_verified = false;  // the rewritten graph has passed the verifier: do not ask it again
};

// What was found to be the same, and what was added to it.
struct Proof {
  std::size_t nodes = 0;  // of the original, each of them there once
  std::size_t swap_outs = 0;
  std::size_t swap_ins = 0;
  std::size_t encodes = 0;
  std::size_t decodes = 0;
  std::size_t snapshots = 0;
  std::size_t clones = 0;
  std::size_t splits = 0;         // nodes of the original that are two
  std::size_t control_edges = 0;  // at nodes of the original and at added ones

  friend bool operator==(const Proof&, const Proof&) = default;
};

// Where the two differ first.
struct Difference {
  std::string code;     // "S04", or that of the invariant which the rewritten graph breaks
  NodeId original;      // not valid when no node of the original is concerned
  NodeId rewritten;     // likewise
  std::string message;  // one line that quotes both
};

// The original must pass the verifier.
[[nodiscard]] tl::expected<Proof, Difference> compare_computations(
    const Graph& original, const Graph& rewritten, const ProofOptions& options = {});

// The same, with the difference as an error of kind kRefused.
[[nodiscard]] Result<Proof> prove_same(const Graph& original, const Graph& rewritten,
                                       const ProofOptions& options = {});

// The same for a rewrite of our own that the verifier has passed, lossy codecs included: that it
// cannot be proved is our bug, an InternalError.
Proof prove_rewrite(const Graph& original, const Graph& rewritten);

// "5 nodes compute the same; added: 1 swap-out, 2 swap-ins, 3 control edges".
std::string to_text(const Proof& proof);

}  // namespace ebb

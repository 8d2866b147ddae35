// A random graph, rewritten by random decisions of all kinds or by the paper's driver with random
// options, or by one after the other.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ebb/graph/graph.h"
#include "ebb/rewrite/decision.h"
#include "ebb/rewrite/lms.h"

namespace ebb {

struct AnyRewrite {
  Graph original;
  Graph halfway;          // what the first Rewriter left; a second one went on from there
  Graph rewritten;        // ids of the original mean the same in both
  std::string decisions;  // one a line, those that were applied
  std::array<int, std::variant_size_v<Decision>> applied = {};  // by kind
  std::vector<std::string> refused;                             // what the rules said
  std::vector<LmsRefusal> left;                                 // what the driver said
  bool by_driver = false;                                       // the first half
  std::size_t recomputed_by_driver = 0;
  std::size_t delayed_by_driver = 0;
};

// The same seed gives the same one on every machine. An InternalError, of rules that break an
// invariant, leaves what there was until then.
void make_any_rewrite(std::uint64_t seed, AnyRewrite& out);

}  // namespace ebb

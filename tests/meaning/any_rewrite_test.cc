// The claim about rewriting as a whole: whatever rules and driver do not refuse is the same
// computation. Tried on random graphs with all constructs, decisions of all kinds and all of the
// driver's options; said by running, in several orders, and by the proof.
#include "tests/meaning/any_rewrite.h"

#include <bitset>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ebb/base/check.h"
#include "ebb/graph/dependence.h"
#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/print.h"
#include "ebb/rewrite/proof.h"
#include "tests/meaning/interpreter.h"
#include "tests/meaning/random_graph.h"

namespace ebb {
namespace {

constexpr std::size_t kMostNodes = 1024;
using NodeSet = std::bitset<kMostNodes>;

// By node of the original that the world sees: those of its like that it waits for.
std::vector<NodeSet> order_of_effects(const Graph& graph, std::size_t count) {
  const Dependence dependence(graph);
  std::vector<NodeSet> seen(graph.node_count());  // at or before a node
  std::vector<NodeSet> waits(count);
  for (const NodeId node : graph.order()) {
    NodeSet& mine = seen[node.index()];
    for (const auto& edge : dependence.before(node)) mine |= seen[edge.node.index()];
    if (graph.effect(node) == Effect::kPure) continue;
    waits[node.index()] = mine;
    mine.set(node.index());
  }
  return waits;
}

// What `now` leaves otherwise than the original did; empty: nothing.
std::string compare(const Outcome& original, Outcome now) {
  now.found.resize(original.found.size());  // the original's nodes have the first ids
  now.variables.resize(original.variables.size());
  if (now.found != original.found) return "an operation found other bytes";
  if (now.variables != original.variables) return "a variable is left with other bytes";
  if (now.outputs != original.outputs) return "an output is another";
  return {};
}

// Makes one, and says what is wrong with it; empty: nothing.
std::string try_one(std::uint64_t seed, AnyRewrite& each) {
  try {
    make_any_rewrite(seed, each);
  } catch (const InternalError& error) {
    return error.what();
  }
  const Outcome expected = run_to_the_end(each.original);
  for (std::uint64_t order = 0; order < 3; ++order) {
    const Graph moved =
        order == 0 ? each.rewritten : with_shuffled_lines(each.rewritten, 3 * seed + order);
    const std::string what = compare(expected, run_to_the_end(moved));
    if (!what.empty()) return fmt::format("{} in this order:\n{}", what, print(moved));
  }
  const std::size_t count = each.original.node_count();
  const auto waited = order_of_effects(each.original, count);
  const auto waits = order_of_effects(each.rewritten, count);
  for (std::size_t i = 0; i < count; ++i) {
    if ((waited[i] & ~waits[i]).any()) return "an effect may overtake another";
  }
  for (const auto& [from, to] : {std::pair{&each.original, &each.halfway},
                                 {&each.halfway, &each.rewritten},
                                 {&each.original, &each.rewritten}}) {
    const auto proof = prove_same(*from, *to);
    if (!proof) return fmt::format("not proved: {}:\n{}", proof.error().render(""), print(*from));
  }
  return {};
}

// What happened in all of them, so that a test which tries nothing is noticed.
struct Tally {
  std::map<std::string, int> counts;

  void add(const AnyRewrite& each) {
    ++counts[each.by_driver ? "by the driver" : "by decisions"];
    counts["swaps"] += each.applied[0];
    counts["recomputes"] += each.applied[1];
    counts["delays"] += each.applied[2];
    counts["moves"] += each.applied[3];
    counts["splits"] += each.applied[4];
    counts["refused"] += static_cast<int>(each.refused.size());
    counts["recomputes by the driver"] += static_cast<int>(each.recomputed_by_driver);
    counts["delays by the driver"] += static_cast<int>(each.delayed_by_driver);
    const Graph& graph = each.rewritten;
    for (std::size_t i = each.original.node_count(); i < graph.node_count(); ++i) {
      const NodeId node(static_cast<std::uint32_t>(i));
      ++counts[graph.clone_of(node).valid() ? "clones" : std::string(graph.op(node))];
      if (graph.clone_of(node).valid() && reads_clone(graph, node)) ++counts["chains of clones"];
    }
    for (const std::string& message : each.refused) {
      for (const std::string_view reason : kReasons) {
        if (message.find(reason) != std::string::npos) ++counts[std::string(reason)];
      }
    }
    for (const LmsRefusal refusal : each.left) ++counts[std::string(describe(refusal))];
  }

  static bool reads_clone(const Graph& graph, NodeId node) {
    for (const Operand& operand : graph.operands(node)) {
      if (operand.tensor.valid() && graph.clone_of(graph.producer(operand.tensor)).valid()) {
        return true;
      }
    }
    return false;
  }

  // What the rules say, each of it.
  static constexpr std::array<std::string_view, 42> kReasons = {
      "those of the variable",
      "those of the constant",
      "updates it afterwards",
      "updates parts of",
      "a group names no reader",
      "no reader is named",
      "is named twice",
      "is given from outside and reads nothing",
      "reads an older version",
      "does not read it",
      "is a view of it",
      "is on its way to the host",
      "it updates an operand",
      "it makes something else as well",
      "which it reads too",
      "it stands in another scope",
      "a trigger is an operation",
      "cannot wait for itself; name",
      "which would wait for it",
      "does not wait for",
      "nothing crosses a frame",
      "is random and runs once",
      "behind which anything may change",
      "on the host already",
      "have no fixed size",
      "takes tensors of known size",
      "where a copy has nothing",
      "codec nonpositive serves",
      "has just brought it back",
      "there is no codec",
      "codec bits takes",
      "it is given from outside, not computed",
      "again already",
      "updates an operand, which happens once",
      "both are random or have effects",
      "it is no aten::convolution_backward",
      "do not fit together",
      "beside another",
      "and the gradient of that",
      "has an effect, and runs once",
      "again, which can be split before",
      "computes it again; split first",
  };
};

TEST(AnyRewrite, IsTheSameComputation) {
  constexpr std::uint64_t kGraphs = 20'000;
  const std::uint64_t graphs = how_many(kGraphs);
  Tally tally;
  for (std::uint64_t seed = 0; seed < graphs; ++seed) {
    AnyRewrite each;
    const std::string what = try_one(seed, each);
    ASSERT_TRUE(what.empty()) << "seed " << seed << ": " << what << "\n"
                              << print(each.original) << each.decisions << print(each.rewritten);
    tally.add(each);
  }
  if (graphs < kGraphs) return;  // too few to have seen everything
  for (const std::string_view reason : Tally::kReasons) {
    EXPECT_GT(tally.counts[std::string(reason)], 0) << "no rule has said: " << reason;
  }
  for (std::uint8_t i = 0; i <= static_cast<std::uint8_t>(LmsRefusal::kNotRecomputed); ++i) {
    if (static_cast<LmsRefusal>(i) == LmsRefusal::kByRule) continue;  // it never comes to that
    const std::string_view reason = describe(static_cast<LmsRefusal>(i));
    EXPECT_GT(tally.counts[std::string(reason)], 50) << "the driver has not said: " << reason;
  }
  for (const auto& [what, least] : {std::pair<std::string, int>{"by the driver", 6'000},
                                    {"by decisions", 12'000},
                                    {"swaps", 20'000},
                                    {"recomputes", 20'000},
                                    {"delays", 20'000},
                                    {"moves", 1'000},
                                    {"splits", 1'000},
                                    {"clones", 20'000},
                                    {"chains of clones", 1'000},
                                    {"recomputes by the driver", 500},
                                    {"delays by the driver", 500},
                                    {std::string(kSwapOut), 10'000},
                                    {std::string(kSwapIn), 20'000},
                                    {std::string(kSnapshot), 1'000},
                                    {std::string(kEncode), 500},
                                    {std::string(kDecode), 500}}) {
    EXPECT_GT(tally.counts[what], least) << what;
  }
  // Most decisions are not among those that nothing could come of.
  EXPECT_GT(4 * (tally.counts["swaps"] + tally.counts["recomputes"] + tally.counts["delays"]),
            tally.counts["refused"]);
  if (HasFailure()) {
    for (const auto& [what, count] : tally.counts) fmt::print("{:8} {}\n", count, what);
  }
}

TEST(AnyRewrite, IsTheSameForTheSameSeed) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    AnyRewrite once;
    AnyRewrite again;
    make_any_rewrite(seed, once);
    make_any_rewrite(seed, again);
    EXPECT_EQ(once.decisions, again.decisions);
    EXPECT_EQ(print(once.rewritten), print(again.rewritten));
  }
}

}  // namespace
}  // namespace ebb

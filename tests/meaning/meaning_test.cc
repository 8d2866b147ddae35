// Claims about all graphs, tried on many random ones and against answers so simple that they are
// obviously right.
#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "ebb/graph/dependence.h"
#include "ebb/graph/edit.h"
#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"
#include "ebb/graph/verify.h"
#include "ebb/graph/views.h"
#include "ebb/order/gamma.h"
#include "ebb/order/liveness.h"
#include "ebb/order/reachability.h"
#include "tests/meaning/interpreter.h"
#include "tests/meaning/random_graph.h"

namespace ebb {
namespace {

std::uint64_t many() { return how_many(20'000); }
std::uint64_t some() { return how_many(2'000); }

TEST(RandomGraphs, PrintAfterParseIsTheIdentity) {
  for (std::uint64_t seed = 0, end = many(); seed < end; ++seed) {
    const Graph graph = with_shuffled_lines(random_graph(seed), seed);
    const std::string text = print(graph);
    const auto parsed = parse_valid(text);
    ASSERT_TRUE(parsed) << "seed " << seed << ": " << parsed.error().render("graph") << "\n"
                        << text;
    ASSERT_EQ(print(*parsed), text) << "seed " << seed;
  }
}

TEST(RandomGraphs, UseEveryConstruct) {
  std::string all;
  for (std::uint64_t seed = 0; seed < 300; ++seed) all += print(random_graph(seed));
  for (const char* construct : {"input %",
                                "param %",
                                "const %",
                                "scalar $",
                                "frame ",
                                "branch ",
                                " in ",
                                "return",
                                "!",
                                " ~ %",
                                " + ",
                                " after ",
                                " takes ",
                                " workspace ",
                                " random",
                                " effect",
                                " clone of ",
                                " strides [",
                                " @host",
                                " @\"",
                                "[*]",
                                "?",
                                "none",
                                "([",
                                ", [",
                                "[]",
                                "scalar::add(",
                                "ebb::swap_out",
                                "ebb::swap_in",
                                "hex\"",
                                "nan",
                                "inf",
                                "-0.0",
                                "= $",
                                "aten::item"}) {
    EXPECT_NE(all.find(construct), std::string::npos) << "no random graph has " << construct;
  }
}

TEST(RandomGraphs, EveryOrderThatKeepsTheDependencesIsValidAndNoOther) {
  for (std::uint64_t seed = 0, end = some(); seed < end; ++seed) {
    Graph graph = random_graph(seed, {.nodes = 8});
    const Dependence dependence(graph);
    std::mt19937_64 engine(seed);
    std::vector<NodeId> order(graph.order().begin(), graph.order().end());
    for (int swaps = 0; swaps < 4; ++swaps) {
      std::swap(order[engine() % order.size()], order[engine() % order.size()]);
      GraphEdit(graph).set_order(order);
      bool keeps = true;
      for (auto late = order.begin(); late != order.end(); ++late) {
        for (const auto& edge : dependence.before(*late)) {
          keeps = keeps && std::find(order.begin(), late, edge.node) != late;
        }
      }
      ASSERT_EQ(verify(graph).has_value(), keeps) << "seed " << seed << "\n" << print(graph);
    }
  }
}

TEST(RandomGraphs, ComputeTheSameInEveryOrderThatKeepsTheDependences) {
  for (std::uint64_t seed = 0, end = many(); seed < end; ++seed) {
    const Graph graph = random_graph(seed);
    const Graph shuffled = with_shuffled_lines(graph, seed);
    ASSERT_EQ(run(graph), run(shuffled)) << "seed " << seed << "\n" << print(graph);
  }
}

// The other way round: a valid line order that breaks one write-after-read edge must be noticed by
// somebody, or the test above could not fail.
TEST(RandomGraphs, ComputeSomethingElseWhenAnUpdateOvertakesAReader) {
  const auto graph = parse_valid(R"(graph g {
  param %w: f32[4]
  %r: f32[4] = my::op(%w)
  %w.1: f32[4] ~ %w = my::add_(%w!)
  return %r
}
)");
  ASSERT_TRUE(graph);
  Graph overtaken = *graph;
  GraphEdit(overtaken).set_order({NodeId(0), NodeId(2), NodeId(1)});
  EXPECT_NE(run(*graph), run(overtaken));
  EXPECT_EQ(verify(overtaken).error().code, "V16");
}

// Who needs a storage at a line, asked line by line.
bool is_needed(const Graph& graph, StorageId storage, std::size_t line) {
  const auto touches = [&](NodeId node) {
    if (makes_only_views(graph, node)) return false;  // there is nothing to run
    for (const Operand& operand : graph.operands(node)) {
      if (operand.tensor.valid() && graph.storage(operand.tensor) == storage) return true;
    }
    for (const TensorId result : graph.results(node)) {
      if (graph.storage(result) == storage) return true;
    }
    return false;
  };
  const NodeKind kind = graph.origin(storage);
  if (kind == NodeKind::kParam || kind == NodeKind::kConst) return true;
  bool made = kind == NodeKind::kInput;
  for (std::size_t i = 0; i <= line; ++i) made = made || touches(graph.order()[i]);
  bool wanted = std::any_of(graph.outputs().begin(), graph.outputs().end(),
                            [&](TensorId output) { return graph.storage(output) == storage; });
  for (std::size_t i = line; i < graph.order().size(); ++i)
    wanted = wanted || touches(graph.order()[i]);
  // Copies over the link run beside the lines.
  const auto line_of = [&](NodeId node) {
    return static_cast<std::size_t>(std::find(graph.order().begin(), graph.order().end(), node) -
                                    graph.order().begin());
  };
  const NodeId maker = graph.producer(graph.root(storage));
  if (graph.op(maker) == "ebb::swap_out") {
    made = made || line_of(graph.producer(graph.operands(maker)[0].tensor)) <= line;
  }
  for (const NodeId node : graph.order()) {
    if (graph.op(node) != "ebb::swap_in" || !touches(node)) continue;
    if (graph.storage(graph.operands(node)[0].tensor) != storage) continue;
    const StorageId back = graph.storage(graph.results(node)[0]);
    const auto reads = [&](NodeId reader) {
      if (makes_only_views(graph, reader)) return false;
      const auto operands = graph.operands(reader);
      return std::any_of(operands.begin(), operands.end(), [&](const Operand& operand) {
        return operand.tensor.valid() && graph.storage(operand.tensor) == back;
      });
    };
    const auto first = std::find_if(graph.order().begin(), graph.order().end(), reads);
    wanted = wanted || (first != graph.order().end() && line <= line_of(*first));
  }
  return made && wanted;
}

TEST(RandomGraphs, LivenessAgreesWithALineByLineSimulation) {
  for (std::uint64_t seed = 0, end = some(); seed < end; ++seed) {
    const Graph graph = with_shuffled_lines(random_graph(seed), seed);
    const std::vector<Life> lives = find_lives(graph);
    const MemoryCurve curve = memory_curve(graph, lives);
    Bytes peak;
    for (std::uint32_t line = 0; line < graph.order().size(); ++line) {
      Bytes device;
      Bytes host;
      const NodeId node = graph.order()[line];
      (graph.runs_on_host(node) ? host : device) += graph.workspace(node);
      for (const StorageId storage : graph.storages()) {
        const bool needed = is_needed(graph, storage, line);
        ASSERT_EQ(lives[storage.index()].covers(line), needed)
            << "seed " << seed << ", line " << line << ", %" << graph.name(graph.root(storage))
            << "\n"
            << print(graph);
        const auto size = graph.size(storage);
        if (needed && size) (graph.residence(storage) == Residence::kHost ? host : device) += *size;
      }
      ASSERT_EQ(curve.device[line], device);
      ASSERT_EQ(curve.host[line], host);
      peak = std::max(peak, device);
    }
    ASSERT_EQ(curve.peak, peak);
    ASSERT_EQ(curve.device[curve.peak_position], peak);
    ASSERT_LE(find_floor(graph).bytes, peak) << "the floor stands under the peak";
  }
}

TEST(RandomGraphs, ReachabilityAgreesWithTheTransitiveClosure) {
  for (std::uint64_t seed = 0, end = some(); seed < end; ++seed) {
    const Graph graph = with_shuffled_lines(random_graph(seed, {.nodes = 40}), seed);
    const Dependence dependence(graph);
    std::vector<std::vector<bool>> waits(graph.node_count(), std::vector<bool>(graph.node_count()));
    for (const NodeId node : graph.order()) {
      for (const auto& edge : dependence.before(node)) {
        waits[node.index()][edge.node.index()] = true;
        for (std::size_t i = 0; i < graph.node_count(); ++i) {
          if (waits[edge.node.index()][i]) waits[node.index()][i] = true;
        }
      }
    }
    Reachability reachability(graph, dependence);
    for (const NodeId from : graph.nodes()) {
      for (const NodeId to : graph.nodes()) {
        ASSERT_EQ(reachability.reaches(from, to), waits[to.index()][from.index()])
            << "seed " << seed << ": from '" << graph.name(from) << "' to '" << graph.name(to)
            << "'\n"
            << print(graph);
      }
    }
  }
}

TEST(RandomGraphs, GammaKeepsThePapersDefinition) {
  for (std::uint64_t seed = 0, end = some(); seed < end; ++seed) {
    const Graph graph = with_shuffled_lines(random_graph(seed), seed);
    const Gamma gamma(graph);
    for (const NodeId node : graph.nodes()) {
      if (!graph.is_op(node)) {
        ASSERT_EQ(gamma[node], 0U);
        continue;
      }
      // Larger than everybody's it waits for, and by one than somebody's (or 1 by itself).
      bool tight = gamma[node] == 1;
      const auto check = [&](NodeId other) {
        EXPECT_LT(gamma[other], gamma[node]);
        tight = tight || gamma[other] + 1 == gamma[node];
      };
      for (const Operand& operand : graph.operands(node)) {
        if (operand.tensor.valid() && !graph.is_variable(operand.tensor)) {
          check(graph.producer(operand.tensor));
        }
      }
      graph.for_each_scalar_read(node, [&](ScalarId scalar) { check(graph.producer(scalar)); });
      for (const NodeId control : graph.controls(node)) check(control);
      ASSERT_TRUE(tight) << "seed " << seed << ", '" << graph.name(node) << "'";
    }
  }
}

TEST(RandomGraphs, AreTheSameForTheSameSeed) {
  EXPECT_EQ(print(random_graph(7)), print(random_graph(7)));
  EXPECT_NE(print(random_graph(7)), print(random_graph(8)));
}

}  // namespace
}  // namespace ebb

// What it costs to prove that a rewritten graph computes the same. The arguments are numbers of
// nodes of the original; every fourth operation's result is swapped out and back for one reader.
#include <map>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/edit.h"
#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"
#include "ebb/rewrite/proof.h"
#include "examples/models.h"

namespace ebb {
namespace {

struct Pair {
  Graph original;
  Graph rewritten;
};

TensorId add_copy(Graph& graph, std::string_view op, TensorId source, const TensorType& type,
                  std::string_view name) {
  GraphEdit edit(graph);
  const NodeId node = edit.add_node(NodeKind::kOp, op);
  const Operand operand{.tensor = source};
  edit.set_operands(node, std::span(&operand, 1));
  return edit.add_result(node, edit.intern(name), edit.intern(type));
}

Graph with_swaps(Graph graph) {
  const std::vector<NodeId> order(graph.order().begin(), graph.order().end());
  std::vector<NodeId> result;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const NodeId node = order[i];
    const auto operands = graph.operands(node);
    const bool candidate =
        i % 4 == 0 && !operands.empty() && operands[0].tensor.valid() &&
        operands[0].access == Access::kRead && graph.results(node).size() == 1 &&
        graph.root(graph.storage(graph.results(node)[0])) == graph.results(node)[0] &&
        graph.type(operands[0].tensor).residence == Residence::kDevice;
    if (candidate) {
      const TensorId source = operands[0].tensor;
      const TensorType type = graph.type(source);
      const TensorId host =
          add_copy(graph, kSwapOut, source, on_host(type), fmt::format("{}.host", i));
      const TensorId back = add_copy(graph, kSwapIn, host, type, fmt::format("{}.back", i));
      GraphEdit(graph).set_operand(node, 0, back);
      result.push_back(graph.producer(host));
      result.push_back(graph.producer(back));
    }
    result.push_back(node);
  }
  GraphEdit(graph).set_order(std::move(result));
  return graph;
}

const Pair& pair_of(std::int64_t nodes) {
  static std::map<std::int64_t, Pair> pairs;
  const auto known = pairs.find(nodes);
  if (known != pairs.end()) return known->second;
  Graph original =
      examples::resnet(examples::resnet_of_size(static_cast<std::size_t>(nodes))).value();
  Graph rewritten = with_swaps(original);
  return pairs.emplace(nodes, Pair{std::move(original), std::move(rewritten)}).first->second;
}

void prove(benchmark::State& state, const Graph& original, const Graph& rewritten,
           bool is_verified) {
  ProofOptions options;
  options.is_verified = is_verified;
  for (auto _ : state) {
    const auto proof = prove_same(original, rewritten, options);
    if (!proof) state.SkipWithError(proof.error().message.c_str());
    benchmark::DoNotOptimize(proof);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(original.node_count()));
  state.counters["rewritten_nodes"] = static_cast<double>(rewritten.node_count());
}

// A rewriter's own graph, which it has verified.
void bm_prove(benchmark::State& state) {
  const Pair& pair = pair_of(state.range(0));
  prove(state, pair.original, pair.rewritten, true);
}

// A graph from elsewhere: other ids, and the verifier to pass.
void bm_verify_and_prove_read(benchmark::State& state) {
  const Pair& pair = pair_of(state.range(0));
  const Graph read = parse(print(pair.rewritten)).value().graph;
  prove(state, pair.original, read, false);
}

#define EBB_BENCHMARK(function) \
  BENCHMARK(function)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond)
EBB_BENCHMARK(bm_prove);
EBB_BENCHMARK(bm_verify_and_prove_read);

}  // namespace
}  // namespace ebb

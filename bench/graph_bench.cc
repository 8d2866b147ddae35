// What the graph layer costs per node. `items_per_second` is nodes a second; the arguments are
// numbers of nodes, so that the cost per node can be compared between 10^5 and 10^6.
#include <sys/resource.h>

#include <benchmark/benchmark.h>

#include "ebb/graph/dependence.h"
#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"
#include "ebb/graph/verify.h"
#include "ebb/order/gamma.h"
#include "ebb/order/liveness.h"
#include "ebb/order/reachability.h"
#include "examples/models.h"

namespace ebb {
namespace {

const Graph& graph_of(std::int64_t nodes) {
  static std::map<std::int64_t, Graph> graphs;
  const auto known = graphs.find(nodes);
  if (known != graphs.end()) return known->second;
  return graphs
      .emplace(nodes,
               examples::resnet(examples::resnet_of_size(static_cast<std::size_t>(nodes))).value())
      .first->second;
}

void count_nodes(benchmark::State& state, const Graph& graph) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(graph.node_count()));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_MiB"] = static_cast<double>(usage.ru_maxrss) / 1024;
}

void bm_parse(benchmark::State& state) {
  const Graph& graph = graph_of(state.range(0));
  const std::string text = print(graph);
  for (auto _ : state) benchmark::DoNotOptimize(parse(text));
  count_nodes(state, graph);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}

void bm_print(benchmark::State& state) {
  const Graph& graph = graph_of(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(print(graph));
  count_nodes(state, graph);
}

void bm_copy(benchmark::State& state) {
  const Graph& graph = graph_of(state.range(0));
  for (auto _ : state) {
    Graph copy = graph;
    benchmark::DoNotOptimize(copy);
  }
  count_nodes(state, graph);
}

void bm_verify(benchmark::State& state) {
  const Graph& graph = graph_of(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(verify(graph));
  count_nodes(state, graph);
}

void bm_gamma(benchmark::State& state) {
  const Graph& graph = graph_of(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(Gamma(graph));
  count_nodes(state, graph);
}

void bm_liveness(benchmark::State& state) {
  const Graph& graph = graph_of(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(memory_curve(graph, find_lives(graph)));
  count_nodes(state, graph);
}

void bm_verify_gamma_liveness(benchmark::State& state) {
  const Graph& graph = graph_of(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(verify(graph));
    benchmark::DoNotOptimize(Gamma(graph));
    benchmark::DoNotOptimize(memory_curve(graph, find_lives(graph)));
    benchmark::DoNotOptimize(find_floor(graph));
  }
  count_nodes(state, graph);
}

void bm_dependence(benchmark::State& state) {
  const Graph& graph = graph_of(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(Dependence(graph));
  count_nodes(state, graph);
}

void bm_reachability_build(benchmark::State& state) {
  const Graph& graph = graph_of(state.range(0));
  const Dependence dependence(graph);
  for (auto _ : state) benchmark::DoNotOptimize(Reachability(graph, dependence));
  count_nodes(state, graph);
}

// One item is one question about two nodes anywhere in the graph.
void bm_reachability_ask(benchmark::State& state) {
  const Graph& graph = graph_of(state.range(0));
  const Dependence dependence(graph);
  Reachability reachability(graph, dependence);
  std::uint64_t seed = 1;
  const auto any_node = [&] {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return NodeId(static_cast<std::uint32_t>((seed >> 33U) % graph.node_count()));
  };
  for (auto _ : state) benchmark::DoNotOptimize(reachability.reaches(any_node(), any_node()));
  state.SetItemsProcessed(state.iterations());
}

constexpr std::int64_t kSmall = 100'000;
constexpr std::int64_t kLarge = 1'000'000;

#define EBB_BENCHMARK(function) \
  BENCHMARK(function)->Arg(kSmall)->Arg(kLarge)->Unit(benchmark::kMillisecond)
EBB_BENCHMARK(bm_parse);
EBB_BENCHMARK(bm_print);
EBB_BENCHMARK(bm_copy);
EBB_BENCHMARK(bm_verify);
EBB_BENCHMARK(bm_gamma);
EBB_BENCHMARK(bm_liveness);
EBB_BENCHMARK(bm_verify_gamma_liveness);
EBB_BENCHMARK(bm_dependence);
EBB_BENCHMARK(bm_reachability_build);
BENCHMARK(bm_reachability_ask)->Arg(kSmall)->Arg(kLarge);

}  // namespace
}  // namespace ebb

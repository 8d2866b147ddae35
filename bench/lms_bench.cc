// What choosing swaps costs, on residual networks where nothing else is said. `items_per_second` is
// nodes a second; the arguments are numbers of nodes.
#include <map>
#include <string>

#include <benchmark/benchmark.h>

#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"
#include "ebb/rewrite/lms.h"
#include "examples/models.h"

namespace ebb {
namespace {

// The examples call a gradient %grad.a; the driver knows the backward phase by its scope.
Graph with_gradient_scope(const Graph& graph) {
  constexpr std::string_view kOld = "%grad.";
  constexpr std::string_view kNew = "%gradients/";
  const std::string text = print(graph);
  std::string renamed;
  std::size_t from = 0;
  for (std::size_t at = text.find(kOld); at != std::string::npos; at = text.find(kOld, from)) {
    renamed.append(text, from, at - from).append(kNew);
    from = at + kOld.size();
  }
  return parse_valid(renamed.append(text, from)).value();
}

using Graphs = std::map<std::int64_t, Graph>;

const Graph& resnet_of(std::int64_t nodes) {
  static Graphs graphs;
  const auto known = graphs.find(nodes);
  if (known != graphs.end()) return known->second;
  const auto options = examples::resnet_of_size(static_cast<std::size_t>(nodes));
  return graphs.emplace(nodes, with_gradient_scope(examples::resnet(options).value()))
      .first->second;
}

const Graph& transformer_of(std::int64_t nodes) {
  static Graphs graphs;
  const auto known = graphs.find(nodes);
  if (known != graphs.end()) return known->second;
  const auto options = examples::transformer_of_size(static_cast<std::size_t>(nodes));
  return graphs.emplace(nodes, with_gradient_scope(examples::transformer(options).value()))
      .first->second;
}

void measure(benchmark::State& state, const Graph& graph, const LmsOptions& options) {
  LmsPlan plan;
  for (auto _ : state) plan = choose_swaps(graph, options).value();
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(graph.node_count()));
  state.counters["swaps"] = static_cast<double>(plan.swaps.size());
  state.counters["swap_ins"] = static_cast<double>(plan.swap_ins);
  state.counters["refused"] = static_cast<double>(plan.refused.size());
}
void measure(benchmark::State& state, const LmsOptions& options) {
  measure(state, resnet_of(state.range(0)), options);
}

void bm_defaults(benchmark::State& state) { measure(state, {}); }
void bm_direct_order(benchmark::State& state) {
  measure(state, {.ctrld_strategy = "direct_order"});
}
void bm_fused(benchmark::State& state) { measure(state, {.fuse_swapins = true}); }
void bm_far_triggers(benchmark::State& state) { measure(state, {.lb = 20}); }
void bm_branches(benchmark::State& state) { measure(state, {.swap_branches = true}); }
void bm_whole_graph(benchmark::State& state) { measure(state, {.whole_graph = true}); }
void bm_transformer(benchmark::State& state) { measure(state, transformer_of(state.range(0)), {}); }
void bm_transformer_fused(benchmark::State& state) {
  measure(state, transformer_of(state.range(0)), {.lb = 3, .fuse_swapins = true});
}

#define EBB_BENCHMARK(function) \
  BENCHMARK(function)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond)
EBB_BENCHMARK(bm_defaults);
EBB_BENCHMARK(bm_direct_order);
EBB_BENCHMARK(bm_fused);
EBB_BENCHMARK(bm_far_triggers);
EBB_BENCHMARK(bm_branches);
EBB_BENCHMARK(bm_whole_graph);
EBB_BENCHMARK(bm_transformer);
EBB_BENCHMARK(bm_transformer_fused);

}  // namespace
}  // namespace ebb

// What laying out costs, and how near the bound it comes: the counters are the number of buffers
// and the size of the arena over the bound. The arguments are numbers of nodes, and the share of
// its peak in per cent that the step is cut down to (100: as it is).
#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "ebb/plan/layout.h"
#include "examples/buffers.h"
#include "examples/models.h"

namespace ebb {
namespace {

using Buffers = std::vector<LayoutBuffer>;

void measure(benchmark::State& state, const Buffers& buffers) {
  Layout layout;
  for (auto _ : state) {
    layout = lay_out(buffers);
    benchmark::DoNotOptimize(layout);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(buffers.size()));
  state.counters["buffers"] = static_cast<double>(buffers.size());
  state.counters["size/bound"] =
      static_cast<double>(layout.size.count) / static_cast<double>(layout.bound.count);
}

Buffers on_share(const Result<Graph>& graph, std::int64_t per_cent) {
  Buffers buffers = examples::device_buffers(graph.value());
  if (per_cent == 100) return buffers;
  return examples::on_budget(std::move(buffers), static_cast<double>(per_cent) / 100);
}

void bm_mlp(benchmark::State& state) {
  const auto nodes = static_cast<std::size_t>(state.range(0));
  measure(state, on_share(examples::mlp(examples::mlp_of_size(nodes)), state.range(1)));
}

void bm_resnet(benchmark::State& state) {
  const auto nodes = static_cast<std::size_t>(state.range(0));
  measure(state, on_share(examples::resnet(examples::resnet_of_size(nodes)), state.range(1)));
}

void bm_transformer(benchmark::State& state) {
  const auto nodes = static_cast<std::size_t>(state.range(0));
  measure(state,
          on_share(examples::transformer(examples::transformer_of_size(nodes)), state.range(1)));
}

// The models as they come; the argument is the share.
void bm_default_mlp(benchmark::State& state) {
  measure(state, on_share(examples::mlp(), state.range(0)));
}
void bm_resnet_50(benchmark::State& state) {
  measure(state, on_share(examples::resnet(), state.range(0)));
}
void bm_unet(benchmark::State& state) {
  measure(state, on_share(examples::unet(), state.range(0)));
}
void bm_gpt2_small(benchmark::State& state) {
  measure(state, on_share(examples::transformer(), state.range(0)));
}

// Nothing like a training step: lives begin and end anywhere, sizes over six orders of magnitude.
// The bound is out of reach, and all the effort is spent.
void bm_random(benchmark::State& state) {
  const auto count = static_cast<std::uint32_t>(state.range(0));
  std::mt19937 random(1);
  Buffers buffers;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto a = static_cast<std::uint32_t>(random() % count);
    const auto b = static_cast<std::uint32_t>(random() % count);
    const auto size = static_cast<std::int64_t>(random() % (16U << (random() % 20)) + 1);
    buffers.push_back(
        {.size = Bytes{size}, .first = std::min(a, b), .last = std::max(a, b), .at = {}});
  }
  measure(state, buffers);
}

#define EBB_BENCHMARK(function)                            \
  BENCHMARK(function)                                      \
      ->ArgsProduct({{2'000, 20'000, 100'000}, {100, 50}}) \
      ->Unit(benchmark::kMillisecond)
EBB_BENCHMARK(bm_mlp);
EBB_BENCHMARK(bm_resnet);
EBB_BENCHMARK(bm_transformer);
#define EBB_BENCHMARK_MODEL(function) \
  BENCHMARK(function)->Arg(100)->Arg(70)->Arg(50)->Arg(35)->Unit(benchmark::kMillisecond)
EBB_BENCHMARK_MODEL(bm_default_mlp);
EBB_BENCHMARK_MODEL(bm_resnet_50);
EBB_BENCHMARK_MODEL(bm_unet);
EBB_BENCHMARK_MODEL(bm_gpt2_small);
BENCHMARK(bm_random)->Arg(2'000)->Arg(20'000)->Arg(100'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ebb

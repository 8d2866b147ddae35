// What reading, writing and rewriting a GraphDef cost. `items_per_second` is nodes a second, of a
// training graph of as many layers as the argument says nodes; and, in the hostile cases, inputs,
// control inputs, attributes or nodes of one kind a second, where anything but linear shows.
#include <benchmark/benchmark.h>

#include "ebb/export/graphdef.h"
#include "ebb/export/rewrite_graphdef.h"
#include "ebb/import/graphdef.h"
#include "ebb/import/graphdef_for_tests.h"

namespace ebb {
namespace {

using for_tests::Attributes;
using for_tests::node;
using for_tests::number_of;
using for_tests::placeholder;
using for_tests::type_of;

std::string name_of(std::string_view kind, std::int64_t number) {
  return std::string(kind) + std::to_string(number);
}

// Layers of a Tanh and its gradient, which reads what the layer made.
std::string training(std::int64_t nodes) {
  const std::int64_t layers = nodes / 2;
  const Attributes attributes = {{"T", type_of(1)},
                                 {"_output_shapes", for_tests::shapes_of({{64, 1024}})}};
  const auto op = [&](const std::string& name, std::string_view type,
                      std::vector<std::string> inputs) {
    return node(name, type, std::move(inputs), attributes, "/device:GPU:0");
  };
  std::string out;
  append_node(out, placeholder("f0"));
  for (std::int64_t i = 1; i < layers; ++i) {
    append_node(out, op(name_of("f", i), "Tanh", {name_of("f", i - 1)}));
  }
  append_node(out, op(name_of("gradients/g", layers), "Neg", {name_of("f", layers - 1)}));
  for (std::int64_t i = layers - 1; i > 0; --i) {
    append_node(out, op(name_of("gradients/g", i), "TanhGrad",
                        {name_of("f", i), name_of("gradients/g", i + 1)}));
  }
  return out;
}

void import_all(benchmark::State& state, const std::string& bytes) {
  for (auto _ : state) {
    const auto graph = import_graphdef(bytes);
    if (!graph) {
      state.SkipWithError(graph.error().message.c_str());
      return;
    }
    benchmark::DoNotOptimize(graph->node_count());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void bm_import(benchmark::State& state) { import_all(state, training(state.range(0))); }
BENCHMARK(bm_import)->Arg(1 << 14)->Arg(100000)->Unit(benchmark::kMillisecond);

void bm_export(benchmark::State& state) {
  const auto graph = import_graphdef(training(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(export_graphdef(*graph));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(bm_export)->Arg(1 << 14)->Arg(100000)->Unit(benchmark::kMillisecond);

void bm_rewrite(benchmark::State& state) {
  const std::string bytes = training(state.range(0));
  for (auto _ : state) {
    const auto done = rewrite_graphdef(bytes, {}, {}, {});
    if (!done || done->graphdef.empty()) {
      state.SkipWithError("nothing was rewritten");
      return;
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(bm_rewrite)->Arg(1 << 14)->Arg(50000)->Unit(benchmark::kMillisecond);

// One node that reads all others.
std::string one_reader(std::int64_t count, bool by_control) {
  std::string out;
  std::vector<std::string> inputs;
  for (std::int64_t i = 0; i < count; ++i) {
    append_node(out, placeholder(name_of("x", i)));
    inputs.push_back((by_control ? "^x" : "x") + std::to_string(i));
  }
  append_node(out, by_control
                       ? node("y", "NoOp", inputs)
                       : node("y", "AddN", inputs, {{"T", type_of(1)}, {"N", number_of(count)}}));
  return out;
}

void bm_many_inputs(benchmark::State& state) {
  import_all(state, one_reader(state.range(0), false));
}
BENCHMARK(bm_many_inputs)->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);

void bm_many_controls(benchmark::State& state) {
  import_all(state, one_reader(state.range(0), true));
}
BENCHMARK(bm_many_controls)->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);

void bm_many_attributes(benchmark::State& state) {
  Attributes attributes;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    attributes.emplace_back(name_of("_a", i), number_of(i));
  }
  import_all(state, for_tests::graphdef({node("y", "NoOp", {}, attributes)}));
}
BENCHMARK(bm_many_attributes)->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);

// As deep as the importer lets conditionals nest, again and again.
void bm_deep_conditionals(benchmark::State& state) {
  constexpr std::int64_t kDepth = 900;
  std::string out;
  append_node(out, placeholder("x"));
  for (std::int64_t i = 0; i < kDepth; ++i) append_node(out, placeholder(name_of("p", i), 10));
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    const std::string data = i % kDepth == 0 ? "x" : name_of("s", i - 1) + ":1";
    append_node(out, node(name_of("s", i), "Switch", {data, name_of("p", i % kDepth)},
                          {{"T", type_of(1)}}));
  }
  import_all(state, out);
}
BENCHMARK(bm_deep_conditionals)->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ebb

// What was measured of kernels, by signature, so that nothing is measured twice.
//
//   Measurements known;
//   MeasuredOnce kernels(torch_kernels, known);
//   auto recipes = measure_all(graph, kernels);
//   auto more = measure_all(rewritten, kernels);   // measures what is new only
//
// They may come from another process (measurement_cache.h).
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "ebb/exec/kernel.h"

namespace ebb::exec {

struct Measured {
  std::optional<Recipe> recipe = std::nullopt;
  std::optional<Duration> time = std::nullopt;
  bool is_warm = false;  // the kernel has run in this process
  bool is_new = false;   // not from another process
};

using Measurements = std::unordered_map<std::string, Measured>;  // by signature (graph/signature.h)

// Kernels of another framework, asked only about what is not known. Belongs to one thread.
class MeasuredOnce final : public Kernels {
 public:
  // Both must outlive it.
  MeasuredOnce(Kernels& kernels, Measurements& known) : kernels_(kernels), known_(known) {}

  [[nodiscard]] MemoryKind memory() const override { return kernels_.memory(); }
  // A recipe that cannot be the node's (check_recipe) is not believed. One that is known from
  // another process spares measuring; the kernel is warmed up.
  [[nodiscard]] Result<Recipe> measure(const Graph& graph, NodeId node) override;
  [[nodiscard]] Result<Duration> time(const Graph& graph, NodeId node) override;
  [[nodiscard]] Status warm_up(const Graph& graph, NodeId node) override;
  [[nodiscard]] Result<std::unique_ptr<Kernel>> bind(const Graph& graph, NodeId node,
                                                     Places places) override {
    return kernels_.bind(graph, node, places);
  }

 private:
  Kernels& kernels_;
  Measurements& known_;
};

}  // namespace ebb::exec

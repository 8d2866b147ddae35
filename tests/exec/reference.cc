#include "tests/exec/reference.h"

#include "ebb/base/check.h"
#include "tests/exec/hash_op.h"

namespace ebb {

Reference::Reference(const Graph& graph) : graph_(graph), buffers_(graph.storage_count()) {
  for (const StorageId storage : graph.storages()) {
    // One byte more, so that there is a place for what is empty.
    buffers_[storage.index()].resize(byte_count(graph, graph.root(storage)) + 1);
  }
}

std::span<std::byte> Reference::bytes(TensorId tensor) {
  const auto begin = static_cast<std::size_t>(graph_.offset(tensor).count);
  return std::span(buffers_[graph_.storage(tensor).index()])
      .subspan(begin, byte_count(graph_, tensor));
}

void Reference::run(exec::Scalars& scalars) {
  const auto place = [this](TensorId tensor) { return bytes(tensor).data(); };
  for (const NodeId node : graph_.order()) {
    if (!graph_.is_op(node)) continue;
    if (graph_.op(node) != "scalar::add") {
      run_hash_op(graph_, node, place, place, scalars);
      continue;
    }
    // The only arithmetic of random graphs, and always on doubles in the end.
    double sum = 0;
    for (const Value& argument : graph_.scalar_arguments(node)) {
      const auto* scalar = std::get_if<ScalarId>(&argument);
      const exec::Number number =
          scalar == nullptr ? exec::Number(std::get<double>(argument)) : scalars[*scalar];
      sum += std::visit([](auto value) { return static_cast<double>(value); }, number);
    }
    EBB_CHECK(graph_.dtype(graph_.scalar_result(node)) == DType::kF64, "the sum is no f64");
    scalars.set(graph_.scalar_result(node), sum);
  }
}

}  // namespace ebb

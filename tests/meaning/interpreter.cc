#include "tests/meaning/interpreter.h"

#include <algorithm>
#include <string>

#include "ebb/base/hash_index.h"
#include "ebb/graph/convolution_backward.h"
#include "ebb/graph/ebb_ops.h"

namespace ebb {
namespace {

class Machine {
 public:
  explicit Machine(const Graph& graph)
      : graph_(graph),
        buffers_(graph.storage_count()),
        encoded_(graph.storage_count()),
        scalars_(graph.scalar_count()),
        found_(graph.node_count()) {}

  Outcome run() {
    for (const StorageId storage : graph_.storages()) {
      // What is given from outside is there before the first line.
      const auto fill = graph_.origin(storage) == NodeKind::kOp ? 0 : 0x5EED + storage.index();
      buffers_[storage.index()].assign(size(storage), static_cast<unsigned char>(fill));
    }
    for (const NodeId node : graph_.order()) step(node);
    Outcome outcome{.found = std::move(found_), .variables = {}, .outputs = {}};
    for (const StorageId storage : graph_.storages()) {
      const bool is_variable = graph_.origin(storage) == NodeKind::kParam;
      const TensorId root = graph_.root(storage);
      outcome.variables.push_back(is_variable ? hash_of(root) : 0);
    }
    for (const TensorId output : graph_.outputs()) outcome.outputs.push_back(hash_of(output));
    return outcome;
  }

 private:
  static constexpr std::size_t kUnknownSize = 8;

  [[nodiscard]] std::size_t size(StorageId storage) const {
    const auto bytes = graph_.size(storage);
    return bytes ? static_cast<std::size_t>(bytes->count) : kUnknownSize;
  }

  // The bytes a tensor looks at; strides are ignored, so it may see more than its elements.
  std::pair<unsigned char*, std::size_t> bytes_of(TensorId tensor) {
    auto& buffer = buffers_[graph_.storage(tensor).index()];
    const auto offset = static_cast<std::size_t>(graph_.offset(tensor).count);
    const auto length = extent(graph_.type(tensor));
    const std::size_t begin = std::min(offset, buffer.size());
    const std::size_t room = buffer.size() - begin;
    return {buffer.data() + begin, length ? static_cast<std::size_t>(length->count) : room};
  }

  std::uint64_t hash_of(TensorId tensor) {
    const auto [data, length] = bytes_of(tensor);
    return hash_bytes({reinterpret_cast<const char*>(data), length});
  }

  void step(NodeId node) {
    const auto gradients = gradient_mask(graph_, node);
    std::string seen(graph_.op(node));
    const auto look_at = [&](TensorId tensor) {
      if (!tensor.valid()) return;
      const auto [data, length] = bytes_of(tensor);
      seen.append(reinterpret_cast<const char*>(data), length);
      seen += '|';
    };
    const auto operands = graph_.operands(node);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const bool is_looked_at_last = gradients && i == kConvolutionInput;
      if (!is_looked_at_last) look_at(operands[i].tensor);
    }
    graph_.for_each_scalar_read(
        node, [&](ScalarId scalar) { seen += std::to_string(scalars_[scalar.index()]) + '|'; });
    const std::uint64_t without_input = hash_bytes(seen);
    if (gradients) look_at(operands[kConvolutionInput].tensor);
    const std::uint64_t hash = gradients && gradients->front() ? without_input : hash_bytes(seen);
    found_[node.index()] = hash;
    if (const ScalarId scalar = graph_.scalar_result(node); scalar.valid()) {
      scalars_[scalar.index()] = graph_.is_op(node) ? hash : scalar.index();
    }
    if (!graph_.is_op(node)) return;
    if (is_copy(node)) {
      const TensorId source = graph_.operands(node)[0].tensor;
      const TensorId copy = graph_.results(node)[0];
      const auto [from, length] = bytes_of(source);
      std::copy_n(from, length, bytes_of(copy).first);
      encoded_of(copy) = encoded_of(source);
      return;
    }
    if (graph_.op(node) == kDecode) {
      const auto [to, length] = bytes_of(graph_.results(node)[0]);
      const auto& content = encoded_of(graph_.operands(node)[0].tensor);
      std::copy_n(content.begin(), std::min(length, content.size()), to);
      return;
    }
    if (graph_.op(node) == kEncode) {
      const auto [from, length] = bytes_of(graph_.operands(node)[0].tensor);
      encoded_of(graph_.results(node)[0]).assign(from, from + length);
    }
    if (gradients) {
      const std::uint64_t with_input = hash_bytes(seen);
      std::uint32_t next = 0;
      for (std::size_t of = 0; of < gradients->size(); ++of) {
        if (!(*gradients)[of]) continue;
        fill(graph_.results(node)[next++], of == 0 ? without_input : with_input + of);
      }
      return;
    }
    for (const TensorId result : graph_.results(node)) {
      if (!is_view(node, result)) fill(result, hash);
    }
  }

  void fill(TensorId result, std::uint64_t hash) {
    const auto [data, length] = bytes_of(result);
    for (std::size_t i = 0; i < length; ++i) {
      data[i] = static_cast<unsigned char>(hash >> (8 * (i % 8))) ^ static_cast<unsigned char>(i);
    }
  }

  // What stands in a code, beside the bytes that it has.
  std::vector<unsigned char>& encoded_of(TensorId code) {
    return encoded_[graph_.storage(code).index()];
  }

  // What makes the same bytes elsewhere.
  [[nodiscard]] bool is_copy(NodeId node) const {
    return graph_.op(node) == kSwapOut || graph_.op(node) == kSwapIn ||
           graph_.op(node) == kSnapshot;
  }

  // A result in the bytes of something the node reads and does not update.
  [[nodiscard]] bool is_view(NodeId node, TensorId result) const {
    if (graph_.root(graph_.storage(result)) == result) return false;
    return std::none_of(graph_.operands(node).begin(), graph_.operands(node).end(),
                        [&](const Operand& operand) {
                          return operand.access == Access::kUpdate && operand.tensor.valid() &&
                                 graph_.storage(operand.tensor) == graph_.storage(result);
                        });
  }

  const Graph& graph_;
  std::vector<std::vector<unsigned char>> buffers_;
  std::vector<std::vector<unsigned char>> encoded_;
  std::vector<std::uint64_t> scalars_;
  std::vector<std::uint64_t> found_;
};

}  // namespace

std::vector<std::uint64_t> run(const Graph& graph) { return Machine(graph).run().found; }

Outcome run_to_the_end(const Graph& graph) { return Machine(graph).run(); }

}  // namespace ebb

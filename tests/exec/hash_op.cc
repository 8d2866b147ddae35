#include "tests/exec/hash_op.h"

#include <algorithm>
#include <cstring>

#include "ebb/base/hash_index.h"
#include "ebb/graph/convolution_backward.h"

namespace ebb {
namespace {

std::uint64_t mix(std::uint64_t state, std::string_view bytes) {
  return (state ^ hash_bytes(bytes)) * 0x9E3779B97F4A7C15 + 1;
}

std::uint64_t mix_bytes(std::uint64_t state, const std::byte* data, std::size_t size) {
  return mix(state, {reinterpret_cast<const char*>(data), size});
}

// Operator, and the values of scalars it reads.
std::uint64_t begin_hash(const Graph& graph, NodeId node, const exec::Scalars& scalars) {
  std::uint64_t state = mix(0, graph.op(node));
  graph.for_each_scalar_read(
      node, [&](ScalarId scalar) { state = mix(state, exec::to_text(scalars[scalar])); });
  return state;
}

void write_hash(std::byte* data, std::size_t size, std::uint64_t hash) {
  for (std::size_t i = 0; i < size; ++i) {
    if (i % 8 == 0) hash = (hash ^ (hash >> 29U)) * 0xD6E8FEB86659FD93 + i;
    data[i] = static_cast<std::byte>(hash >> (8 * (i % 8)));
  }
}

bool is_made_or_updated(const Graph& graph, NodeId node, TensorId result) {
  if (graph.root(graph.storage(result)) == result) return true;
  const auto operands = graph.operands(node);
  return std::any_of(operands.begin(), operands.end(), [&](const Operand& operand) {
    return operand.access == Access::kUpdate &&
           graph.storage(operand.tensor) == graph.storage(result) &&
           graph.offset(operand.tensor) == graph.offset(result);
  });
}

void run_elementwise(const Graph& graph, NodeId node, const PlaceOf& place,
                     const PlaceOf& result_place, const exec::Scalars& scalars) {
  const TensorId result = graph.results(node)[0];
  const TensorType& type = graph.type(result);
  std::byte* out = result_place(result);
  std::uint64_t state = begin_hash(graph, node, scalars);
  std::vector<const std::byte*> aligned;  // operands with an element for each of the result
  for (const Operand& operand : graph.operands(node)) {
    if (!operand.tensor.valid()) continue;
    const TensorType& other = graph.type(operand.tensor);
    const std::byte* data = place(operand.tensor);
    if (other.dims == type.dims && other.strides == type.strides &&
        element_size(other.dtype) == element_size(type.dtype)) {
      aligned.push_back(data);
    } else {
      state = mix_bytes(state, data, byte_count(graph, operand.tensor));
    }
  }
  const std::size_t size = byte_count(graph, result);
  if (graph.op(node) == "aten::masked_fill.Scalar" && !aligned.empty() && size > 0) {
    std::memmove(out, aligned[0], size);
    aligned[0] = out;
  }
  const auto step = static_cast<std::size_t>(element_size(type.dtype));
  for (std::size_t i = size; i > 0; i -= step) {
    std::uint64_t hash = state + i;
    for (const std::byte* data : aligned) hash = mix_bytes(hash, data + i - step, step);
    write_hash(out + i - step, step, hash);
  }
}

void write_gradients(const Graph& graph, NodeId node, const GradientMask& mask, std::uint64_t state,
                     const PlaceOf& place, const PlaceOf& result_place) {
  const auto operands = graph.operands(node);
  const auto look_at = [&](std::size_t operand) {
    const TensorId tensor = operands[operand].tensor;
    if (tensor.valid()) state = mix_bytes(state, place(tensor), byte_count(graph, tensor));
  };
  look_at(0);
  look_at(2);
  const std::uint64_t without_input = state;
  if (mask[1] || mask[2]) look_at(kConvolutionInput);
  std::uint32_t next = 0;
  for (std::size_t of = 0; of < mask.size(); ++of) {
    if (!mask[of]) continue;
    const TensorId result = graph.results(node)[next++];
    write_hash(result_place(result), byte_count(graph, result),
               (of == 0 ? without_input : state) + of);
  }
}

}  // namespace

std::size_t byte_count(const Graph& graph, TensorId tensor) {
  return static_cast<std::size_t>(extent(graph.type(tensor)).value_or(Bytes{}).count);
}

bool is_hash_elementwise(const Graph& graph, NodeId node) {
  return graph.op(node).starts_with("aten::") && graph.results(node).size() == 1 &&
         !graph.updates_something(node) && graph.op(node) != kConvolutionBackward;
}

void run_hash_op(const Graph& graph, NodeId node, const PlaceOf& place, const PlaceOf& result_place,
                 exec::Scalars& scalars) {
  if (is_hash_elementwise(graph, node)) {
    run_elementwise(graph, node, place, result_place, scalars);
    return;
  }
  std::uint64_t state = begin_hash(graph, node, scalars);
  if (const auto mask = gradient_mask(graph, node)) {
    write_gradients(graph, node, *mask, state, place, result_place);
    return;
  }
  for (const Operand& operand : graph.operands(node)) {
    if (!operand.tensor.valid()) continue;
    state = mix_bytes(state, place(operand.tensor), byte_count(graph, operand.tensor));
  }
  for (const TensorId result : graph.results(node)) {
    if (!is_made_or_updated(graph, node, result)) continue;
    state = mix(state, "next result");
    write_hash(result_place(result), byte_count(graph, result), state);
  }
  if (const ScalarId scalar = graph.scalar_result(node); scalar.valid()) {
    scalars.set(scalar, static_cast<double>(state % 1'000'003) / 64.0);
  }
}

}  // namespace ebb

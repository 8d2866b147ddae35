#include "tests/exec/runnable_graph.h"

#include <algorithm>
#include <array>
#include <random>

#include "ebb/base/check.h"
#include "ebb/graph/builder.h"
#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/scalar_op.h"
#include "tests/meaning/random_graph.h"

namespace ebb {
namespace {

// Builds the graph again, line by line, with other types and operators.
class Rebuilder {
 public:
  Rebuilder(const Graph& old, std::uint64_t seed)
      : old_(old),
        engine_(seed),
        builder_(old.name()),
        tensors_(old.tensor_count()),
        scalars_(old.scalar_count()),
        nodes_(old.node_count()) {}

  Graph run() {
    for (const NodeId node : old_.order()) {
      if (old_.is_op(node)) {
        add_operation(node);
      } else {
        declare(node);
      }
    }
    std::vector<TensorId> outputs;
    for (const TensorId output : old_.outputs()) outputs.push_back(now(output));
    builder_.returns(outputs);
    auto graph = builder_.build();
    EBB_CHECK(graph.has_value(), "a runnable graph is wrong: {}", graph.error().message);
    return std::move(*graph);
  }

 private:
  bool one_in(std::size_t sides) { return engine_() % sides == 0; }
  [[nodiscard]] TensorId now(TensorId old) const { return tensors_[old.index()]; }
  [[nodiscard]] const Graph& graph() const { return builder_.graph(); }

  static TensorType known(TensorType type) {
    type.residence = Residence::kDevice;
    type.ranked = true;
    if (element_size(type.dtype) == 0) type.dtype = DType::kI16;
    for (std::int64_t& dim : type.dims) {
      if (dim == TensorType::kUnknownDim) dim = 3;
    }
    return type;
  }

  // The type and place of a view, inside of what its storage is now.
  std::pair<TensorType, Bytes> part(TensorId old, StorageId storage) {
    TensorType type = known(old_.type(old));
    const std::int64_t room = graph().size(storage).value_or(Bytes{}).count;
    if (room == 0) return {tensor_type(DType::kI8, {0}), Bytes{}};
    const std::int64_t begin = old_.offset(old).count % room;
    const std::int64_t length = extent(type).value_or(Bytes{}).count;
    if (begin + length > room) type = tensor_type(DType::kI8, {room - begin});
    return {type, Bytes{begin}};
  }

  void declare(NodeId node) {
    const std::string name(old_.name(node));
    if (old_.kind(node) == NodeKind::kScalar) {
      const ScalarId scalar = old_.scalar_result(node);
      scalars_[scalar.index()] = builder_.scalar(name, old_.dtype(scalar));
      return;
    }
    const TensorId old = old_.results(node)[0];
    const TensorId root = old_.root(old_.storage(old));
    const TensorType type = known(old_.type(old));
    TensorId& made = tensors_[old.index()];
    if (root != old) {
      const auto [part_type, offset] = part(old, graph().storage(now(root)));
      made = builder_.param_view(name, part_type, now(root), offset);
    } else if (old_.kind(node) == NodeKind::kParam) {
      made = builder_.param(name, type);
    } else if (old_.kind(node) == NodeKind::kConst) {
      made = builder_.constant(name, type);
    } else {
      made = builder_.input(name, type);
    }
    nodes_[node.index()] = graph().producer(made);
  }

  BuilderValue value_of(const Value& value) {
    if (const auto* text = std::get_if<Text>(&value)) return std::string(old_.text(text->id));
    if (const auto* blob = std::get_if<Blob>(&value)) return std::string(old_.text(blob->id));
    if (const auto* boolean = std::get_if<bool>(&value)) return *boolean;
    if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
    if (const auto* real = std::get_if<double>(&value)) return *real;
    if (const auto* dtype = std::get_if<DType>(&value)) return *dtype;
    return scalars_[std::get<ScalarId>(value).index()];
  }

  std::vector<BuilderValue> values_of(std::span<const Value> values) {
    std::vector<BuilderValue> out;
    for (const Value& value : values) out.push_back(value_of(value));
    return out;
  }

  void add_operation(NodeId node) {
    if (is_host_arithmetic(old_.op(node))) {
      OpBuilder op = builder_.scalar_op(old_.op(node), values_of(old_.scalar_arguments(node)));
      const ScalarId scalar = old_.scalar_result(node);
      scalars_[scalar.index()] = op.makes_scalar(old_.name(scalar), old_.dtype(scalar));
      nodes_[node.index()] = graph().producer(scalars_[scalar.index()]);
      return;
    }
    std::vector<Operand> operands(old_.operands(node).begin(), old_.operands(node).end());
    for (Operand& operand : operands) {
      if (operand.tensor.valid()) operand.tensor = now(operand.tensor);
    }
    const TensorId like = elementwise_like(node, operands);
    std::string name(old_.op(node));
    if (name == kSwapOut || name == kSwapIn) name = "my::copy";
    if (like.valid()) name = elementwise_name();
    OpBuilder op = builder_.op(name, {BuilderOperand(operands)});
    for (const Attribute& attribute : old_.attributes(node)) {
      const auto values = values_of(old_.items(attribute));
      if (attribute.is_list) {
        op.attr(old_.text(attribute.key), values);
      } else {
        op.attr(old_.text(attribute.key), values[0]);
      }
    }
    for (const NodeId control : old_.controls(node)) op.after(nodes_[control.index()]);
    if (old_.effect(node) == Effect::kRandom) op.random();
    if (old_.effect(node) == Effect::kEffect) op.effect();
    add_results(op, node, like);
  }

  void add_results(OpBuilder& op, NodeId node, TensorId like) {
    if (const ScalarId scalar = old_.scalar_result(node); scalar.valid()) {
      scalars_[scalar.index()] = op.makes_scalar(old_.name(scalar), old_.dtype(scalar));
      nodes_[node.index()] = graph().producer(scalars_[scalar.index()]);
      return;
    }
    if (old_.results(node).empty()) {
      nodes_[node.index()] = op.named(old_.name(node));
      return;
    }
    for (const TensorId old : old_.results(node)) {
      TensorId& made = tensors_[old.index()];
      const TensorId updated = updated_by(node, old);
      const TensorId root = old_.root(old_.storage(old));
      if (updated.valid()) {
        made = op.makes_next(old_.name(old), now(updated));
      } else if (root != old) {
        const auto [type, offset] = part(old, graph().storage(now(root)));
        made = op.makes_view(old_.name(old), type, now(root), offset);
      } else {
        made = op.makes(old_.name(old),
                        like.valid() ? TensorType(graph().type(like)) : known(old_.type(old)));
      }
      nodes_[node.index()] = graph().producer(made);
    }
    for (const TensorId old : old_.results(node)) {
      if (graph().root(graph().storage(now(old))) == now(old) && one_in(2)) go_on_from(old);
    }
  }

  // What was read of a result is read of something that is made of it alone, so that it dies young.
  void go_on_from(TensorId old) {
    TensorId& made = tensors_[old.index()];
    const TensorType type = graph().type(made);
    const std::vector<BuilderOperand> operands(1 + engine_() % 2, BuilderOperand(made));
    OpBuilder op = builder_.op(elementwise_name(), operands);
    made = op.makes(std::string(old_.name(old)) + ".then", type);
  }

  // The operand of which a result is the next version.
  [[nodiscard]] TensorId updated_by(NodeId node, TensorId result) const {
    for (const Operand& operand : old_.operands(node)) {
      if (operand.access != Access::kUpdate) continue;
      if (old_.storage(operand.tensor) == old_.storage(result)) return operand.tensor;
    }
    return {};
  }

  // An operand whose type the result takes; not valid when the operation stays as it is.
  TensorId elementwise_like(NodeId node, const std::vector<Operand>& operands) {
    if (old_.op(node) != "my::op" || old_.results(node).size() != 1) return {};
    if (old_.effect(node) != Effect::kPure || one_in(8)) return {};
    for (const Operand& operand : operands) {
      if (operand.tensor.valid() && !one_in(4)) return operand.tensor;
    }
    return {};
  }

  std::string elementwise_name() {
    constexpr std::array kNames = {"aten::relu", "aten::add.Tensor", "aten::mul.Tensor",
                                   "aten::where.self", "aten::masked_fill.Scalar"};
    return kNames[engine_() % kNames.size()];
  }

  const Graph& old_;
  std::mt19937_64 engine_;
  GraphBuilder builder_;
  std::vector<TensorId> tensors_;  // by what they were
  std::vector<ScalarId> scalars_;
  std::vector<NodeId> nodes_;
};

}  // namespace

Graph runnable_graph(std::uint64_t seed, int nodes) {
  const Graph old = random_graph(seed, {.nodes = nodes});
  return Rebuilder(old, seed).run();
}

}  // namespace ebb

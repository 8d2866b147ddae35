#include "ebb/graph/builder.h"

#include <fmt/format.h>

#include "ebb/base/utf8.h"
#include "ebb/graph/verify.h"

namespace ebb {

BuilderOperand update(TensorId tensor) {
  return BuilderOperand({Operand{.tensor = tensor, .access = Access::kUpdate}});
}

BuilderOperand absent() { return BuilderOperand({Operand{}}); }

BuilderOperand list_of(const std::vector<BuilderOperand>& items) {
  using Position = Operand::Position;
  if (items.empty())
    return BuilderOperand({Operand{.tensor = {}, .position = Position::kEmptyList}});
  std::vector<Operand> parts;
  for (const BuilderOperand& item : items) {
    for (Operand part : item.parts) {
      part.position = parts.empty() ? Position::kListFirst : Position::kListNext;
      parts.push_back(part);
    }
  }
  return BuilderOperand(std::move(parts));
}

GraphBuilder::GraphBuilder(std::string_view name) : graph_(name), edit_(graph_) {}

void GraphBuilder::remember(std::string message) {
  if (error_) return;
  error_ =
      Error{.kind = ErrorKind::kBadInput, .code = {}, .message = std::move(message), .place = {}};
}

bool GraphBuilder::knows(TensorId tensor) {
  const bool known = tensor.index() < graph_.tensor_count();
  if (!known) remember("a tensor that is not of this graph is used");
  return known;
}

bool GraphBuilder::may_add_result(NodeId node) {
  const auto results = graph_.results(node);
  const bool in_a_row =
      results.empty() || results[results.size() - 1].index() + 1 == graph_.tensor_count();
  if (!in_a_row) {
    remember(fmt::format("'{}' makes a further result after another operation made its own",
                         graph_.name(node)));
  }
  return in_a_row;
}

SymbolId GraphBuilder::name_for(std::string_view name) {
  if (graph_.find_node(name).valid() || graph_.find_tensor(name).valid()) {
    remember(fmt::format("'{}' is defined twice", name));
  }
  return edit_.intern(name);
}

TypeId GraphBuilder::type_for(std::string_view name, const TensorType& type) {
  if (const auto wrong = defect(type)) {
    remember(fmt::format("the type of %{} {}", name, *wrong));
    return edit_.intern(TensorType{});
  }
  return edit_.intern(type);
}

Value GraphBuilder::value_of(const BuilderValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    const SymbolId id = edit_.intern(*text);
    return is_utf8(*text) ? Value(Text{id}) : Value(Blob{id});
  }
  return std::visit(
      [](const auto& v) -> Value {
        if constexpr (std::is_convertible_v<decltype(v), std::string>) {
          return std::monostate();
        } else {
          return v;
        }
      },
      value);
}

TensorId GraphBuilder::declare(NodeKind kind, std::string_view name, const TensorType& type) {
  return edit_.add_result(edit_.add_node(kind), name_for(name), type_for(name, type));
}

TensorId GraphBuilder::input(std::string_view name, const TensorType& type) {
  return declare(NodeKind::kInput, name, type);
}
TensorId GraphBuilder::param(std::string_view name, const TensorType& type) {
  return declare(NodeKind::kParam, name, type);
}
TensorId GraphBuilder::constant(std::string_view name, const TensorType& type) {
  return declare(NodeKind::kConst, name, type);
}

TensorId GraphBuilder::param_view(std::string_view name, const TensorType& type, TensorId of,
                                  Bytes offset) {
  if (!knows(of)) return {};
  return edit_.add_shared_result(edit_.add_node(NodeKind::kParam), name_for(name),
                                 type_for(name, type), of, offset);
}

ScalarId GraphBuilder::scalar(std::string_view name, DType dtype) {
  return edit_.add_scalar_result(edit_.add_node(NodeKind::kScalar), name_for(name), dtype);
}

ScopeId GraphBuilder::frame(std::string_view name, ScopeId parent) {
  return edit_.add_scope(ScopeKind::kFrame, edit_.intern(name), parent);
}
ScopeId GraphBuilder::branch(std::string_view name, ScopeId parent) {
  return edit_.add_scope(ScopeKind::kBranch, edit_.intern(name), parent);
}

OpBuilder GraphBuilder::op(std::string_view op, std::initializer_list<BuilderOperand> operands) {
  return this->op(op, std::vector<BuilderOperand>(operands));
}

OpBuilder GraphBuilder::op(std::string_view op, const std::vector<BuilderOperand>& operands) {
  std::vector<Operand> flat;
  for (const BuilderOperand& operand : operands) {
    for (Operand part : operand.parts) {
      if (part.tensor.valid() && !knows(part.tensor)) part.tensor = TensorId();
      flat.push_back(part);
    }
  }
  const NodeId node = edit_.add_node(NodeKind::kOp, op);
  edit_.set_operands(node, flat);
  return OpBuilder(*this, node);
}

OpBuilder GraphBuilder::scalar_op(std::string_view op, const std::vector<BuilderValue>& arguments) {
  std::vector<Value> values;
  values.reserve(arguments.size());
  for (const BuilderValue& argument : arguments) values.push_back(value_of(argument));
  const NodeId node = edit_.add_node(NodeKind::kOp, op);
  edit_.set_scalar_arguments(node, values);
  return OpBuilder(*this, node);
}

void GraphBuilder::returns(const std::vector<TensorId>& outputs) { edit_.set_outputs(outputs); }

Result<Graph> GraphBuilder::build() {
  if (error_) return fail(*error_);
  if (auto status = verify(graph_); !status) return fail(std::move(status.error()));
  return std::exchange(graph_, Graph());
}

OpBuilder& OpBuilder::attr(std::string_view key, const BuilderValue& value) {
  const Value item = builder_.value_of(value);
  builder_.edit_.add_attribute(node_, builder_.edit_.intern(key), false, std::span(&item, 1));
  return *this;
}

OpBuilder& OpBuilder::attr(std::string_view key, const std::vector<BuilderValue>& values) {
  std::vector<Value> items;
  items.reserve(values.size());
  for (const BuilderValue& value : values) items.push_back(builder_.value_of(value));
  builder_.edit_.add_attribute(node_, builder_.edit_.intern(key), true, items);
  return *this;
}

OpBuilder& OpBuilder::after(NodeId node) {
  builder_.edit_.add_control(node_, node);
  return *this;
}

OpBuilder& OpBuilder::after(TensorId result) {
  if (!builder_.knows(result)) return *this;
  return after(builder_.graph_.producer(result));
}

OpBuilder& OpBuilder::takes(Duration duration) {
  if (duration < Duration::zero()) builder_.remember("an operation takes less than no time");
  builder_.edit_.set_takes(node_, duration);
  return *this;
}
OpBuilder& OpBuilder::workspace(Bytes bytes) {
  builder_.edit_.set_workspace(node_, bytes);
  return *this;
}
OpBuilder& OpBuilder::on(std::string_view device) {
  builder_.edit_.set_device(node_, device);
  return *this;
}
OpBuilder& OpBuilder::in(ScopeId scope) {
  builder_.edit_.set_scope(node_, scope);
  return *this;
}
OpBuilder& OpBuilder::random() {
  builder_.edit_.set_effect(node_, Effect::kRandom);
  return *this;
}
OpBuilder& OpBuilder::effect() {
  builder_.edit_.set_effect(node_, Effect::kEffect);
  return *this;
}
OpBuilder& OpBuilder::clone_of(NodeId original) {
  builder_.edit_.set_clone_of(node_, original);
  return *this;
}

TensorId OpBuilder::makes(std::string_view name, const TensorType& type) {
  if (!builder_.may_add_result(node_)) return {};
  return builder_.edit_.add_result(node_, builder_.name_for(name), builder_.type_for(name, type));
}

TensorId OpBuilder::makes_view(std::string_view name, const TensorType& type, TensorId of,
                               Bytes offset) {
  if (!builder_.may_add_result(node_) || !builder_.knows(of)) return {};
  return builder_.edit_.add_shared_result(node_, builder_.name_for(name),
                                          builder_.type_for(name, type), of, offset);
}

TensorId OpBuilder::makes_next(std::string_view name, TensorId updated) {
  if (!builder_.may_add_result(node_) || !builder_.knows(updated)) return {};
  const Graph& graph = builder_.graph_;
  const TensorId next = builder_.edit_.add_shared_result(
      node_, builder_.name_for(name), graph.type_id(updated), updated, graph.offset(updated));
  if (graph.version(next) != graph.version(updated) + 1) {
    builder_.remember(
        fmt::format("%{} is to be the next version of %{}, which its operation does "
                    "not update; say update(...)",
                    name, graph.name(updated)));
  }
  return next;
}

ScalarId OpBuilder::makes_scalar(std::string_view name, DType dtype) {
  return builder_.edit_.add_scalar_result(node_, builder_.name_for(name), dtype);
}

NodeId OpBuilder::named(std::string_view label) {
  builder_.edit_.set_label(node_, builder_.name_for(label));
  return node_;
}

}  // namespace ebb

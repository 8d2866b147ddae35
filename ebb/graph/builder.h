// Builds a graph from C++, line by line.
//
//   GraphBuilder b("step");
//   const TensorId x = b.input("x", f32({32, 784}));
//   const TensorId w = b.param("w", f32({784, 256}));
//   const ScalarId lr = b.scalar("lr");
//   const TensorId h = b.op("aten::mm", {x, w}).takes(40us).makes("h", f32({32, 256}));
//   const TensorId g = b.op("aten::mm_tn", {x, h}).makes("g", f32({784, 256}));
//   const TensorId w1 = b.op("aten::add_", {update(w), g}).attr("alpha", lr).makes_next("w.1", w);
//   b.returns({w1});
//   Result<Graph> graph = b.build();
//
// Calls never fail: a wrong one is remembered, and build() tells of the first. So ids may be handed
// on without looking at each, and a graph that build() returns has passed the verifier.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/graph/edit.h"
#include "ebb/graph/graph.h"

namespace ebb {

// An operand as the builder takes it: a tensor, or one of the functions below.
struct BuilderOperand {
  BuilderOperand(TensorId tensor) : parts{Operand{.tensor = tensor}} {}  // NOLINT: implicit
  explicit BuilderOperand(std::vector<Operand> operands) : parts(std::move(operands)) {}

  std::vector<Operand> parts;
};
BuilderOperand update(TensorId tensor);
BuilderOperand absent();
BuilderOperand list_of(const std::vector<BuilderOperand>& items);

// An attribute value as the builder takes it.
using BuilderValue = std::variant<bool, std::int64_t, double, DType, ScalarId, std::string>;

class GraphBuilder;

// One operation in the making. Its line stands where op() was called.
class OpBuilder {
 public:
  OpBuilder& attr(std::string_view key, const BuilderValue& value);
  OpBuilder& attr(std::string_view key, const std::vector<BuilderValue>& values);
  OpBuilder& after(NodeId node);
  OpBuilder& after(TensorId result);  // after the node that makes it
  OpBuilder& takes(Duration duration);
  OpBuilder& workspace(Bytes bytes);
  OpBuilder& on(std::string_view device);
  OpBuilder& in(ScopeId scope);
  OpBuilder& random();
  OpBuilder& effect();
  OpBuilder& clone_of(NodeId original);

  // Results, in order. The first names the node.
  TensorId makes(std::string_view name, const TensorType& type);
  TensorId makes_view(std::string_view name, const TensorType& type, TensorId of,
                      Bytes offset = {});
  TensorId makes_next(std::string_view name, TensorId updated);  // the next version
  ScalarId makes_scalar(std::string_view name, DType dtype = DType::kF64);
  // For an operation without results.
  NodeId named(std::string_view label);

 private:
  friend class GraphBuilder;
  OpBuilder(GraphBuilder& builder, NodeId node) : builder_(builder), node_(node) {}

  GraphBuilder& builder_;
  NodeId node_;
};

class GraphBuilder {
 public:
  explicit GraphBuilder(std::string_view name);
  GraphBuilder(const GraphBuilder&) = delete;  // operations in the making point here
  GraphBuilder& operator=(const GraphBuilder&) = delete;
  ~GraphBuilder() = default;

  TensorId input(std::string_view name, const TensorType& type);
  TensorId param(std::string_view name, const TensorType& type);
  TensorId constant(std::string_view name, const TensorType& type);
  // A parameter in the bytes of another one, `offset` bytes from the start of its storage.
  TensorId param_view(std::string_view name, const TensorType& type, TensorId of,
                      Bytes offset = {});
  ScalarId scalar(std::string_view name, DType dtype = DType::kF64);
  ScopeId frame(std::string_view name, ScopeId parent = {});
  ScopeId branch(std::string_view name, ScopeId parent = {});

  OpBuilder op(std::string_view op, std::initializer_list<BuilderOperand> operands);
  OpBuilder op(std::string_view op, const std::vector<BuilderOperand>& operands);
  // Host arithmetic: scalar_op("scalar::sub", {1.0, p}).makes_scalar("bias").
  OpBuilder scalar_op(std::string_view op, const std::vector<BuilderValue>& arguments);

  void returns(const std::vector<TensorId>& outputs);

  // What has been built so far.
  [[nodiscard]] const Graph& graph() const { return graph_; }
  // The finished graph, verified; the builder is empty afterwards.
  [[nodiscard]] Result<Graph> build();

 private:
  friend class OpBuilder;

  bool knows(TensorId tensor);       // or remembers that it does not
  bool may_add_result(NodeId node);  // likewise
  TensorId declare(NodeKind kind, std::string_view name, const TensorType& type);
  SymbolId name_for(std::string_view name);
  TypeId type_for(std::string_view name, const TensorType& type);
  Value value_of(const BuilderValue& value);
  void remember(std::string message);

  Graph graph_;
  GraphEdit edit_;
  std::optional<Error> error_;
};

}  // namespace ebb

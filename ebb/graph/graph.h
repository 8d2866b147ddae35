// The training graph of the paper, section 3: operations, some of them parameterized (variables,
// constants, inputs), joined by read, update and control edges, in the order of their lines.
//
// A Graph is a value: copy it to ask "what if". Everything in it is named by a typed id, and ids
// mean the same in the copy. Its face is const; it is made by a parser (parse.h) or a builder
// (builder.h) and changed through GraphEdit (edit.h), never behind the back of who reads it.
// Views and spans it hands out are valid until the graph is next changed.
//
//   for (NodeId node : graph.order())
//     for (const Operand& operand : graph.operands(node))
//       if (operand.tensor.valid()) use(graph.name(operand.tensor), graph.type(operand.tensor));
//
// What a graph may hold is wider than what is right: that is the verifier's business (verify.h).
// Accessors take ids of this graph and check nothing; builds for development check ranges.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "ebb/base/ids.h"
#include "ebb/base/units.h"
#include "ebb/graph/symbols.h"
#include "ebb/graph/type.h"

namespace ebb {

using NodeId = Id<struct NodeTag>;
using TensorId = Id<struct TensorTag>;
using StorageId = Id<struct StorageTag>;
using ScalarId = Id<struct ScalarTag>;
using TypeId = Id<struct TypeTag>;
using ScopeId = Id<struct ScopeTag>;

enum class NodeKind : std::uint8_t {
  kInput,   // fed anew each step
  kParam,   // a variable: weights, buffers, optimizer state; lives from step to step
  kConst,   // set once, never updated
  kScalar,  // a host number given anew each step, as the learning rate
  kOp,      // a normal operation
};

// What a second execution of the operation would do.
enum class Effect : std::uint8_t {
  kPure,    // give the same again
  kRandom,  // give something else: runs once
  kEffect,  // change the world outside the graph's tensors
};

enum class Access : std::uint8_t { kRead, kUpdate };

// One operand. Lists are flattened: `[%a, %b]` is two operands that say where in a list they stand.
struct Operand {
  enum class Position : std::uint8_t { kAlone, kListFirst, kListNext, kEmptyList };

  TensorId tensor;  // not valid: `none`, or the one that stands for an empty list
  Access access = Access::kRead;
  Position position = Position::kAlone;

  friend bool operator==(const Operand&, const Operand&) = default;
};

// One attribute value, or one element of a list of them.
struct Text {
  SymbolId id;
  friend bool operator==(Text, Text) = default;
};
struct Blob {  // opaque bytes, which need not be UTF-8
  SymbolId id;
  friend bool operator==(Blob, Blob) = default;
};
using Value = std::variant<std::monostate, bool, std::int64_t, double, DType, Text, Blob, ScalarId>;

// Equal as values; a NaN equals a NaN, as the text form spells all of them alike.
bool same_value(const Value& a, const Value& b);

struct Attribute {
  SymbolId key;
  bool is_list = false;  // otherwise there is exactly one item
  std::uint32_t first_item = 0;
  std::uint32_t item_count = 0;
};

// Where control flow puts a node: the body of a loop, or one side of a conditional.
enum class ScopeKind : std::uint8_t { kFrame, kBranch };

class Graph {
 public:
  explicit Graph(std::string_view name = "graph");

  [[nodiscard]] std::string_view name() const { return text(name_); }

  // Sizes; the ids are 0 ... count-1.
  [[nodiscard]] std::size_t node_count() const { return nodes_.size(); }
  [[nodiscard]] std::size_t tensor_count() const { return tensors_.size(); }
  [[nodiscard]] std::size_t storage_count() const { return storages_.size(); }
  [[nodiscard]] std::size_t scalar_count() const { return scalars_.size(); }
  [[nodiscard]] std::size_t scope_count() const { return scopes_.size(); }
  [[nodiscard]] std::size_t type_count() const { return types_.size(); }
  [[nodiscard]] IdRange<NodeId> nodes() const;
  [[nodiscard]] IdRange<TensorId> tensors() const;
  [[nodiscard]] IdRange<StorageId> storages() const;
  [[nodiscard]] IdRange<ScalarId> scalars() const;
  [[nodiscard]] IdRange<ScopeId> scopes() const;

  // The nodes in the order of their lines: the schedule.
  [[nodiscard]] std::span<const NodeId> order() const { return order_; }
  // What the step returns.
  [[nodiscard]] std::span<const TensorId> outputs() const { return outputs_; }

  // Nodes. A node is named by its first result, or by a label of its own when it has none.
  [[nodiscard]] std::string_view name(NodeId node) const { return text(nodes_[node.index()].name); }
  [[nodiscard]] NodeKind kind(NodeId node) const { return nodes_[node.index()].kind; }
  [[nodiscard]] bool is_op(NodeId node) const { return kind(node) == NodeKind::kOp; }
  // "aten::add.Tensor"; empty for parameterized operations.
  [[nodiscard]] std::string_view op(NodeId node) const { return text(nodes_[node.index()].op); }
  [[nodiscard]] std::span<const Operand> operands(NodeId node) const;
  [[nodiscard]] bool updates_something(NodeId node) const;
  [[nodiscard]] IdRange<TensorId> results(NodeId node) const;
  [[nodiscard]] ScalarId scalar_result(NodeId node) const;  // not valid unless it makes a scalar
  [[nodiscard]] std::span<const NodeId> controls(NodeId node) const;
  [[nodiscard]] std::span<const Attribute> attributes(NodeId node) const;
  [[nodiscard]] const Attribute* find_attribute(NodeId node, std::string_view key) const;
  [[nodiscard]] std::span<const Value> items(const Attribute& attribute) const;
  // The arguments of host arithmetic, `scalar::sub(1.0, $p)`: numbers and scalars.
  [[nodiscard]] std::span<const Value> scalar_arguments(NodeId node) const;
  // Calls visit(ScalarId) for each scalar among the node's attributes and arguments.
  template <class Visit>
  void for_each_scalar_read(NodeId node, Visit&& visit) const {
    const auto visit_all = [&](std::span<const Value> values) {
      for (const Value& value : values) {
        if (const auto* scalar = std::get_if<ScalarId>(&value)) visit(*scalar);
      }
    };
    for (const Attribute& attribute : attributes(node)) visit_all(items(attribute));
    visit_all(scalar_arguments(node));
  }
  [[nodiscard]] std::string_view device(NodeId node) const;  // empty: the default accelerator
  // Whether it is the host that computes: what makes host tensors only, or a scalar. The copies of
  // rewriting are neither side's.
  [[nodiscard]] bool runs_on_host(NodeId node) const;
  [[nodiscard]] Effect effect(NodeId node) const { return nodes_[node.index()].effect; }
  [[nodiscard]] Bytes workspace(NodeId node) const { return nodes_[node.index()].workspace; }
  [[nodiscard]] std::optional<Duration> takes(NodeId node) const;
  [[nodiscard]] ScopeId scope(NodeId node) const { return nodes_[node.index()].scope; }
  // The node that this one computes again; not valid for originals.
  [[nodiscard]] NodeId clone_of(NodeId node) const { return nodes_[node.index()].clone_of; }

  // Tensors.
  [[nodiscard]] std::string_view name(TensorId t) const { return text(tensors_[t.index()].name); }
  [[nodiscard]] const TensorType& type(TensorId t) const { return types_[type_id(t).index()]; }
  // Equal ids, equal types.
  [[nodiscard]] TypeId type_id(TensorId t) const { return tensors_[t.index()].type; }
  [[nodiscard]] NodeId producer(TensorId t) const { return tensors_[t.index()].producer; }
  [[nodiscard]] StorageId storage(TensorId t) const { return tensors_[t.index()].storage; }
  // Where the tensor begins in its storage.
  [[nodiscard]] Bytes offset(TensorId t) const { return tensors_[t.index()].offset; }
  // How many updates of the storage this tensor comes after.
  [[nodiscard]] std::uint32_t version(TensorId t) const { return tensors_[t.index()].version; }

  // Storages: the bytes behind tensors. The root is the tensor that brought them into being.
  [[nodiscard]] TensorId root(StorageId storage) const { return storages_[storage.index()].root; }
  [[nodiscard]] std::optional<Bytes> size(StorageId storage) const;
  [[nodiscard]] Residence residence(StorageId storage) const {
    return type(root(storage)).residence;
  }
  // Which kind of node brought the bytes into being. kParam: these are a variable's.
  [[nodiscard]] NodeKind origin(StorageId storage) const { return kind(producer(root(storage))); }
  [[nodiscard]] bool is_variable(TensorId t) const {
    return origin(storage(t)) == NodeKind::kParam;
  }

  // Scalars.
  [[nodiscard]] std::string_view name(ScalarId s) const { return text(scalars_[s.index()].name); }
  [[nodiscard]] DType dtype(ScalarId s) const { return scalars_[s.index()].dtype; }
  [[nodiscard]] NodeId producer(ScalarId s) const { return scalars_[s.index()].producer; }

  [[nodiscard]] std::string_view name(ScopeId s) const { return text(scopes_[s.index()].name); }
  [[nodiscard]] ScopeKind kind(ScopeId s) const { return scopes_[s.index()].kind; }
  // The scope it stands in; not valid when it stands in none.
  [[nodiscard]] ScopeId parent(ScopeId s) const { return scopes_[s.index()].parent; }

  // By name. One name stands for one thing in a graph, whatever its sigil; the answer is an id of
  // nothing when there is no such thing or it is of another kind.
  [[nodiscard]] NodeId find_node(std::string_view name) const;
  [[nodiscard]] TensorId find_tensor(std::string_view name) const;
  [[nodiscard]] ScalarId find_scalar(std::string_view name) const;
  [[nodiscard]] ScopeId find_scope(std::string_view name) const;  // scopes have names of their own

  [[nodiscard]] std::string_view text(SymbolId symbol) const { return symbols_.text(symbol); }

 private:
  friend class GraphEdit;

  static constexpr SymbolId kEmptyText{0};

  struct Range {
    std::uint32_t begin = 0;
    std::uint32_t count = 0;
  };
  // Plain records, with variable-sized parts in the pools below: a copy is a few memcpys, and a
  // million nodes are a few hundred bytes each.
  struct Node {
    SymbolId name = kEmptyText;
    SymbolId op = kEmptyText;
    SymbolId device = kEmptyText;
    ScopeId scope;
    NodeId clone_of;
    ScalarId scalar_result;
    Range operands;
    Range results;  // tensor ids
    Range controls;
    Range attributes;
    Range scalar_arguments;  // items
    Bytes workspace;
    Duration takes = kUnknownDuration;
    NodeKind kind = NodeKind::kOp;
    Effect effect = Effect::kPure;
  };
  struct Tensor {
    SymbolId name;
    TypeId type;
    NodeId producer;
    StorageId storage;
    Bytes offset;
    std::uint32_t version = 0;
  };
  struct Storage {
    TensorId root;
  };
  struct Scalar {
    SymbolId name;
    DType dtype = DType::kF64;
    NodeId producer;
  };
  struct Scope {
    SymbolId name;
    ScopeKind kind = ScopeKind::kFrame;
    ScopeId parent;
  };
  // What a name stands for. A tensor that is its node's first result names the node as well.
  struct Named {
    NodeId node;
    TensorId tensor;
    ScalarId scalar;
    ScopeId scope;
  };
  static constexpr Duration kUnknownDuration{-1};

  template <class T>
  static std::span<const T> slice(const std::vector<T>& pool, Range range) {
    return std::span<const T>(pool).subspan(range.begin, range.count);
  }
  [[nodiscard]] const Named* named(SymbolId symbol) const {
    return symbol.index() < named_.size() ? &named_[symbol.index()] : nullptr;
  }

  Symbols symbols_;
  SymbolId name_;
  std::vector<Named> named_;  // by symbol; may be shorter than there are symbols
  std::vector<TensorType> types_;
  HashIndex type_index_;
  std::vector<Node> nodes_;
  std::vector<Tensor> tensors_;
  std::vector<Storage> storages_;
  std::vector<Scalar> scalars_;
  std::vector<Scope> scopes_;
  std::vector<NodeId> order_;
  std::vector<TensorId> outputs_;
  std::vector<Operand> operand_pool_;
  std::vector<NodeId> control_pool_;
  std::vector<Attribute> attribute_pool_;
  std::vector<Value> item_pool_;
};

}  // namespace ebb

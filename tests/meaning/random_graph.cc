#include "tests/meaning/random_graph.h"

#include <algorithm>
#include <limits>
#include <random>

#include <fmt/format.h>

#include "ebb/base/check.h"
#include "ebb/graph/builder.h"
#include "ebb/graph/dependence.h"
#include "ebb/graph/edit.h"

namespace ebb {
namespace {

// std::uniform_int_distribution differs from library to library; this does not.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t sides) { return engine_() % sides; }
  bool one_in(std::size_t sides) { return below(sides) == 0; }
  template <class T>
  const T& pick(const std::vector<T>& items) {
    return items[below(items.size())];
  }

 private:
  std::mt19937_64 engine_;
};

class Generator {
 public:
  Generator(std::uint64_t seed, const RandomGraphOptions& options)
      : dice_(seed), options_(options), builder_(random_name("g")) {}

  Graph run() {
    declare();
    for (int i = 0; i < options_.nodes; ++i) add_something();
    std::vector<TensorId> outputs;
    for (std::size_t i = dice_.below(4); i > 0 && !readable_.empty(); --i) {
      outputs.push_back(dice_.pick(readable_));
    }
    builder_.returns(outputs);
    auto graph = builder_.build();
    EBB_CHECK(graph.has_value(), "a random graph is wrong: {}", graph.error().message);
    return std::move(*graph);
  }

 private:
  const Graph& graph() { return builder_.graph(); }

  std::string random_name(std::string_view stem) {
    static const std::vector<std::string> kSpices = {"",  "",   ".",    "/",      "-", "_",
                                                     ":", " ",  "\"",   "\\",     "é", "γ→",
                                                     "%", "\n", "\x01", "return", "#"};
    return fmt::format("{}{}{}", stem, dice_.pick(kSpices), counter_++);
  }

  TensorType random_type() {
    static const std::vector<DType> kTypes = {DType::kF32,   DType::kBF16, DType::kI64,
                                              DType::kBool,  DType::kC128, DType::kString,
                                              DType::kF8E5M2};
    TensorType type = tensor_type(dice_.pick(kTypes), {});
    if (dice_.one_in(20)) {
      type.ranked = false;
      return type;
    }
    for (std::size_t rank = dice_.below(4); rank > 0; --rank) {
      type.dims.push_back(static_cast<std::int64_t>(dice_.below(7)));
    }
    if (!type.dims.empty() && dice_.one_in(6)) {
      for (std::size_t i = 0; i < type.dims.size(); ++i) {
        type.strides.push_back(static_cast<std::int64_t>(dice_.below(9)));
      }
    } else if (!type.dims.empty() && dice_.one_in(12)) {
      type.dims[0] = TensorType::kUnknownDim;
    }
    if (dice_.one_in(8)) type.residence = Residence::kHost;
    return type;
  }

  BuilderValue random_value() {
    switch (dice_.below(7)) {
      case 0:
        return dice_.one_in(2);
      case 1:
        return static_cast<std::int64_t>(dice_.below(1000)) - 500;
      case 2:
        return dice_.pick(std::vector<double>{
            0.0, -0.0, 0.1, 1e-5, 1e300, 3.0, std::numeric_limits<double>::infinity(),
            -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(),
            std::numeric_limits<double>::denorm_min()});
      case 3:
        return DType::kF16;
      case 4:
        if (!scalars_.empty()) return dice_.pick(scalars_);
        return true;
      case 5:
        return std::string(dice_.one_in(2) ? "\xff\x00z" : "bytes \"\\\n", 3);
      default:
        return random_name("text");
    }
  }

  void declare() {
    if (dice_.one_in(3)) {
      const ScopeId frame = builder_.frame(random_name("frame"));
      scopes_ = {frame, builder_.branch(random_name("branch"), frame),
                 builder_.branch(random_name("branch"))};
    }
    for (std::size_t i = 1 + dice_.below(5); i > 0; --i) {
      const std::string name = random_name("d");
      switch (dice_.below(4)) {
        case 0:
          scalars_.push_back(builder_.scalar(name, dice_.one_in(2) ? DType::kF64 : DType::kI64));
          break;
        case 1:
          readable_.push_back(builder_.constant(name, random_type()));
          break;
        case 2:
          readable_.push_back(builder_.param(name, random_type()));
          break;
        default:
          readable_.push_back(builder_.input(name, random_type()));
      }
    }
  }

  void add_something() {
    switch (readable_.empty() ? 0 : dice_.below(9)) {
      case 0:
        add_scalar();
        break;
      case 1:
        add_view();
        break;
      case 2:
        add_update();
        break;
      case 3:
        add_swap();
        break;
      case 4:
        add_clone();
        break;
      case 5:
        builder_.op("my::effect", random_operands()).effect().named(random_name("l"));
        break;
      default:
        add_operation();
        break;
    }
  }

  std::vector<BuilderOperand> random_operands() {
    std::vector<BuilderOperand> operands;
    const auto one = [&]() -> BuilderOperand {
      if (readable_.empty() || dice_.one_in(6)) return absent();
      return dice_.pick(readable_);
    };
    for (std::size_t i = dice_.below(4); i > 0; --i) {
      if (dice_.one_in(5)) {
        std::vector<BuilderOperand> items;
        for (std::size_t j = dice_.below(4); j > 0; --j) items.push_back(one());
        operands.push_back(list_of(items));
      } else {
        operands.push_back(one());
      }
    }
    return operands;
  }

  // Clauses and attributes; results come after.
  void decorate(OpBuilder& op, ScopeId scope = {}) {
    for (std::size_t i = dice_.below(3); i > 0; --i) {
      const std::string key = random_name("k");
      if (dice_.one_in(3)) {
        std::vector<BuilderValue> values;
        for (std::size_t j = dice_.below(4); j > 0; --j) values.push_back(random_value());
        op.attr(key, values);
      } else {
        op.attr(key, random_value());
      }
    }
    if (dice_.one_in(4)) op.takes(Duration(dice_.below(5'000'000)));
    if (dice_.one_in(4)) op.workspace(Bytes{static_cast<std::int64_t>(dice_.below(10'000))});
    if (dice_.one_in(8)) op.on(random_name("cuda:"));
    // From a node of no scope control may go anywhere but into a frame.
    const bool in_frame = scope.valid() && scope != scopes_[2];
    if (!in_frame && !free_nodes_.empty() && dice_.one_in(3)) op.after({dice_.pick(free_nodes_)});
    if (scope.valid()) op.in(scope);
  }

  void add_operation() {
    OpBuilder op = builder_.op(dice_.one_in(9) ? "an op" : "my::op", random_operands());
    const ScopeId scope = !scopes_.empty() && dice_.one_in(4) ? dice_.pick(scopes_) : ScopeId();
    decorate(op, scope);
    if (dice_.one_in(10)) op.random();
    for (std::size_t i = 1 + dice_.below(3); i > 0; --i) {
      readable_.push_back(op.makes(random_name("t"), random_type()));
    }
    if (!scope.valid()) free_nodes_.push_back(graph().producer(readable_.back()));
  }

  void add_scalar() {
    if (!readable_.empty() && dice_.one_in(2)) {
      OpBuilder op = builder_.op("aten::item", {dice_.pick(readable_)});
      scalars_.push_back(op.makes_scalar(random_name("s")));
      return;
    }
    std::vector<BuilderValue> arguments = {0.5, 0.5};
    for (BuilderValue& argument : arguments) {
      if (!scalars_.empty() && dice_.one_in(2)) argument = dice_.pick(scalars_);
    }
    OpBuilder op = builder_.scalar_op("scalar::add", arguments);
    scalars_.push_back(op.makes_scalar(random_name("s"), DType::kF64));
  }

  // A view of some elements somewhere inside.
  void add_view() {
    const TensorId base = dice_.pick(readable_);
    const StorageId storage = graph().storage(base);
    const TensorType& root = graph().type(graph().root(storage));
    const auto size = graph().size(storage);
    TensorType type = tensor_type(DType::kI8, {0});
    type.residence = root.residence;
    Bytes offset;
    if (size && size->count > 0) {
      const auto begin = dice_.below(static_cast<std::size_t>(size->count));
      const auto length = 1 + dice_.below(static_cast<std::size_t>(size->count) - begin);
      offset = Bytes{static_cast<std::int64_t>(begin)};
      type.dims = {static_cast<std::int64_t>(length)};
    }
    OpBuilder op = builder_.op("my::view", {base});
    decorate(op);
    readable_.push_back(op.makes_view(random_name("v"), type, base, offset));
  }

  void add_update() {
    const TensorId old = dice_.pick(readable_);
    const StorageId storage = graph().storage(old);
    if (graph().kind(storage) == NodeKind::kConst) return;
    auto operands = random_operands();
    operands.insert(operands.begin(), update(old));
    OpBuilder op = builder_.op("my::add_", operands);
    decorate(op);
    const TensorId next = op.makes_next(random_name("w"), old);
    // The old version is no more.
    std::erase_if(readable_, [&](TensorId t) { return graph().storage(t) == storage; });
    readable_.push_back(next);
  }

  void add_swap() {
    const TensorId tensor = dice_.pick(readable_);
    const TensorType type = graph().type(tensor);
    if (type.residence == Residence::kHost) return;
    OpBuilder out = builder_.op("ebb::swap_out", {tensor});
    const TensorId host = out.makes(random_name("host"), on_host(type));
    OpBuilder in = builder_.op("ebb::swap_in", {host});
    decorate(in);
    readable_.push_back(host);
    readable_.push_back(in.makes(random_name("back"), type));
  }

  void add_clone() {
    const NodeId original = graph().producer(dice_.pick(readable_));
    const std::string op_name(graph().op(original));
    const bool plain = graph().is_op(original) && !graph().clone_of(original).valid() &&
                       graph().effect(original) == Effect::kPure && op_name == "my::op" &&
                       graph().attributes(original).empty();
    if (!plain) return;
    std::vector<BuilderOperand> operands;
    for (const Operand& operand : graph().operands(original)) {
      const bool list = operand.position != Operand::Position::kAlone;
      const bool gone = operand.tensor.valid() && std::find(readable_.begin(), readable_.end(),
                                                            operand.tensor) == readable_.end();
      if (list || gone) return;
      operands.push_back(BuilderOperand({operand}));
    }
    OpBuilder clone = builder_.op(op_name, operands);
    clone.clone_of(original);
    for (const TensorId result : graph().results(original)) {
      readable_.push_back(clone.makes(random_name("again"), TensorType(graph().type(result))));
    }
  }

  Dice dice_;
  RandomGraphOptions options_;
  int counter_ = 0;
  GraphBuilder builder_;
  std::vector<TensorId> readable_;  // of the versions that are current
  std::vector<ScalarId> scalars_;
  std::vector<ScopeId> scopes_;     // none, or: a frame, a branch in it, a branch at the top
  std::vector<NodeId> free_nodes_;  // in no scope
};

}  // namespace

Graph random_graph(std::uint64_t seed, const RandomGraphOptions& options) {
  return Generator(seed, options).run();
}

Graph with_shuffled_lines(Graph graph, std::uint64_t seed) {
  Dice dice(seed);
  const Dependence dependence(graph);
  std::vector<std::size_t> missing(graph.node_count());
  std::vector<NodeId> ready;
  for (const NodeId node : graph.nodes()) {
    missing[node.index()] = dependence.before(node).size();
    if (missing[node.index()] == 0) ready.push_back(node);
  }
  std::vector<NodeId> order;
  while (!ready.empty()) {
    std::swap(ready[dice.below(ready.size())], ready.back());
    const NodeId node = ready.back();
    ready.pop_back();
    order.push_back(node);
    for (const auto& edge : dependence.after(node)) {
      if (--missing[edge.node.index()] == 0) ready.push_back(edge.node);
    }
  }
  GraphEdit(graph).set_order(std::move(order));
  return graph;
}

}  // namespace ebb

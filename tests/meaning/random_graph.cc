#include "tests/meaning/random_graph.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <random>

#include <fmt/format.h>

#include "ebb/base/check.h"
#include "ebb/graph/builder.h"
#include "ebb/graph/dependence.h"
#include "ebb/graph/edit.h"
#include "tests/sanitized.h"

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
    for (int i = 0; i < options_.nodes; ++i) {
      if (options_.for_rewriting && i == options_.nodes / 2) prefix_ = "gradients/";
      if (options_.for_rewriting && dice_.one_in(4)) {
        add_something_rare();
      } else {
        add_something();
      }
      const bool is_forward = i < options_.nodes / 2;
      if (is_forward && static_cast<int>(layers_.size()) < options_.layers) add_layer();
      if (!is_forward) add_gradient();
    }
    while (gradients_ < layers_.size()) add_gradient();
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
    return fmt::format("{}{}{}{}", prefix_, stem, dice_.pick(kSpices), counter_++);
  }

  TensorType random_type() {
    // Most tensors of a real step can be moved.
    if (options_.for_rewriting && !dice_.one_in(3)) return tensor_type(DType::kF32, {2, 4});
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
      const ScopeId branch = builder_.branch(random_name("branch"));
      scopes_ = {frame, builder_.branch(random_name("branch"), frame), branch,
                 builder_.branch(random_name("branch"), branch)};
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
        case 2: {
          const TensorId whole = builder_.param(name, random_type());
          readable_.push_back(whole);
          if (dice_.one_in(3)) {
            const auto [type, offset] = random_part(whole);
            readable_.push_back(builder_.param_view(random_name("part"), type, whole, offset));
          }
          break;
        }
        default:
          readable_.push_back(builder_.input(name, random_type()));
      }
    }
    if (options_.for_rewriting) {
      handle_ = builder_.input(random_name("handle"), tensor_type(DType::kResource, {}));
      readable_.push_back(builder_.input(random_name("x"), tensor_type(DType::kF32, {4})));
    }
  }

  void add_something_rare() {
    const TensorId tensor = dice_.pick(readable_);
    switch (dice_.below(10)) {
      case 0: {
        OpBuilder op = builder_.op("tf::ReadVariableOp", {handle_});
        readable_.push_back(op.makes(random_name("t"), random_type()));
        break;
      }
      case 1:
        builder_.op("tf::AssignVariableOp", {handle_, tensor}).effect().named(random_name("l"));
        break;
      case 2: {
        OpBuilder op = builder_.op("my::twice", {tensor, tensor, list_of({tensor, absent()})});
        decorate(op);
        readable_.push_back(op.makes(random_name("t"), tensor_type(DType::kF32, {2, 3})));
        break;
      }
      case 3:
        add_view_of({tensor, dice_.pick(readable_)}, {});
        break;
      case 4:
        add_view_of({tensor}, scopes_.empty() ? ScopeId() : dice_.pick(scopes_));
        break;
      case 5: {
        const auto [type, offset] = random_part(tensor);
        OpBuilder op = builder_.op("my::split", {tensor});
        readable_.push_back(op.makes_view(random_name("v"), type, tensor, offset));
        readable_.push_back(op.makes(random_name("t"), tensor_type(DType::kF32, {3})));
        break;
      }
      case 6:
        add_encoded_swap();
        break;
      case 7:
        add_update(dice_.pick(readable_));
        break;
      case 8: {  // for which a codec may keep no more than signs
        OpBuilder op = builder_.op("aten::threshold_backward", {dice_.pick(readable_), tensor});
        op.attr("threshold", std::int64_t{0});
        readable_.push_back(op.makes(random_name("t"), random_type()));
        break;
      }
      default: {
        OpBuilder op = builder_.op("my::gt", {tensor});
        decorate(op);
        readable_.push_back(op.makes(random_name("m"), tensor_type(DType::kBool, {3, 5})));
        break;
      }
    }
  }

  // Shares the bytes of the first operand.
  void add_view_of(const std::vector<TensorId>& operands, ScopeId scope) {
    const auto [type, offset] = random_part(operands[0]);
    const std::vector<BuilderOperand> read(operands.begin(), operands.end());
    OpBuilder op = builder_.op("my::view", read);
    decorate(op, scope);
    readable_.push_back(op.makes_view(random_name("v"), type, operands[0], offset));
  }

  void add_encoded_swap() {
    OpBuilder op = builder_.op("my::gt", {dice_.pick(readable_)});
    const TensorType mask = tensor_type(DType::kBool, {3, 5});
    const TensorType bits = tensor_type(DType::kU8, {2});
    readable_.push_back(op.makes(random_name("m"), mask));
    OpBuilder encode = builder_.op("ebb::encode", {readable_.back()});
    encode.attr("codec", std::string("bits"));
    OpBuilder out = builder_.op("ebb::swap_out", {encode.makes(random_name("c"), bits)});
    OpBuilder in = builder_.op("ebb::swap_in", {out.makes(random_name("host"), on_host(bits))});
    OpBuilder decode = builder_.op("ebb::decode", {in.makes(random_name("c"), bits)});
    decode.attr("codec", std::string("bits"));
    readable_.push_back(decode.makes(random_name("back"), mask));
  }

  void add_something() {
    switch (readable_.empty() ? 0 : dice_.below(10)) {
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
      case 6:
        add_convolution_backward();
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
      if (!layers_.empty() && dice_.one_in(4)) return dice_.pick(layers_);
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
    const bool in_frame = scope.valid() && (scope == scopes_[0] || scope == scopes_[1]);
    if (!in_frame && !free_nodes_.empty() && dice_.one_in(3)) op.after(dice_.pick(free_nodes_));
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

  // Mostly one that can be split.
  void add_convolution_backward() {
    const std::vector<TensorId>& inputs = layers_.empty() || dice_.one_in(2) ? readable_ : layers_;
    const TensorId input = dice_.pick(inputs);
    const std::array mask = {!dice_.one_in(8), !dice_.one_in(4), !dice_.one_in(2)};
    OpBuilder op = builder_.op("aten::convolution_backward",
                               {dice_.pick(readable_), input, dice_.pick(readable_)});
    decorate(op);
    op.attr("output_mask", std::vector<BuilderValue>(mask.begin(), mask.end()));
    if (dice_.one_in(20)) op.random();
    const TensorType type = graph().type(input);
    if (mask[0]) {
      readable_.push_back(op.makes(random_name("gx"), dice_.one_in(8) ? random_type() : type));
    }
    if (mask[1]) readable_.push_back(op.makes(random_name("gw"), random_type()));
    if (mask[2] || (!mask[0] && !mask[1])) {
      readable_.push_back(op.makes(random_name("gb"), random_type()));
    }
  }

  // Layers are not updated: they are not among what may be.
  void add_layer() {
    static const std::vector<std::string> kOps = {"my::conv", "my::relu", "my::bias"};
    TensorId read = layers_.empty()
                        ? builder_.input(random_name("x"), tensor_type(DType::kF32, {2, 4}))
                        : layers_.back();
    if (dice_.one_in(6)) {
      const auto [type, offset] = random_part(read);
      read = builder_.op("my::view", {read}).makes_view(random_name("v"), type, read, offset);
    }
    std::vector<BuilderOperand> operands = {read};
    if (dice_.one_in(4)) operands.emplace_back(dice_.pick(readable_));
    if (!layers_.empty() && dice_.one_in(4)) operands.emplace_back(dice_.pick(layers_));
    OpBuilder op = builder_.op(dice_.pick(kOps), operands);
    if (dice_.one_in(12)) op.random();
    layers_.push_back(op.makes(random_name("y"), tensor_type(DType::kF32, {2, 4})));
    if (dice_.one_in(6)) {
      layers_.push_back(op.makes(random_name("y"), tensor_type(DType::kF32, {4})));
    }
  }

  void add_gradient() {
    if (gradients_ == layers_.size()) return;
    const TensorId layer = layers_[layers_.size() - 1 - gradients_++];
    std::vector<BuilderOperand> operands = {gradient_.valid() ? gradient_ : layers_.back(), layer};
    if (dice_.one_in(4)) operands.emplace_back(dice_.pick(layers_));
    OpBuilder op = builder_.op("my::grad", operands);
    gradient_ = op.makes(random_name("g"), tensor_type(DType::kF32, {2, 4}));
  }

  void add_scalar() {
    if (!readable_.empty() && dice_.one_in(2)) {
      OpBuilder op = builder_.op("aten::item", {dice_.pick(readable_)});
      scalars_.push_back(op.makes_scalar(random_name("s")));
      return;
    }
    std::vector<BuilderValue> arguments;
    for (int i = 0; i < 2; ++i) {
      if (!scalars_.empty() && dice_.one_in(2)) {
        arguments.emplace_back(dice_.pick(scalars_));
      } else {
        arguments.emplace_back(0.5);
      }
    }
    OpBuilder op = builder_.scalar_op("scalar::add", arguments);
    scalars_.push_back(op.makes_scalar(random_name("s"), DType::kF64));
  }

  // Some bytes somewhere inside the storage of a tensor.
  std::pair<TensorType, Bytes> random_part(TensorId base) {
    const StorageId storage = graph().storage(base);
    const auto size = graph().size(storage);
    TensorType type = tensor_type(DType::kI8, {0});
    type.residence = graph().residence(storage);
    if (!size || size->count == 0) return {type, Bytes{}};
    const auto begin = dice_.below(static_cast<std::size_t>(size->count));
    const auto length = 1 + dice_.below(static_cast<std::size_t>(size->count) - begin);
    type.dims = {static_cast<std::int64_t>(length)};
    return {type, Bytes{static_cast<std::int64_t>(begin)}};
  }

  void add_view() {
    const TensorId base = dice_.pick(readable_);
    const auto [type, offset] = random_part(base);
    OpBuilder op = builder_.op("my::view", {base});
    decorate(op);
    readable_.push_back(op.makes_view(random_name("v"), type, base, offset));
  }

  // Of one tensor or a list of them, none in the bytes of another. May also make a view.
  void add_update(TensorId viewed = {}) {
    std::vector<TensorId> old;
    for (std::size_t i = 1 + dice_.below(3); i > 0; --i) {
      const TensorId tensor = dice_.pick(readable_);
      const auto same_bytes = [&](TensorId other) {
        return graph().storage(other) == graph().storage(tensor);
      };
      const bool constant = graph().origin(graph().storage(tensor)) == NodeKind::kConst;
      if (!constant && std::none_of(old.begin(), old.end(), same_bytes)) old.push_back(tensor);
    }
    if (old.empty()) return;
    auto operands = random_operands();
    if (old.size() == 1) {
      operands.insert(operands.begin(), update(old[0]));
    } else {
      std::vector<BuilderOperand> list;
      list.reserve(old.size());
      for (const TensorId tensor : old) list.push_back(update(tensor));
      operands.insert(operands.begin(), list_of(list));
    }
    const bool is_overwritten = std::any_of(old.begin(), old.end(), [&](TensorId tensor) {
      return viewed.valid() && graph().storage(tensor) == graph().storage(viewed);
    });
    if (is_overwritten) viewed = {};
    if (viewed.valid()) operands.emplace_back(viewed);
    OpBuilder op = builder_.op("my::add_", operands);
    decorate(op);
    if (viewed.valid()) {
      const auto [type, offset] = random_part(viewed);
      readable_.push_back(op.makes_view(random_name("v"), type, viewed, offset));
    }
    // As batch normalisation does.
    const bool makes_more = dice_.below(2) == 0;
    const TensorId more = makes_more ? op.makes(random_name("t"), random_type()) : TensorId();
    for (const TensorId tensor : old) {
      const TensorId next = op.makes_next(random_name("w"), tensor);
      // The old version is no more.
      const StorageId storage = graph().storage(tensor);
      std::erase_if(readable_, [&](TensorId t) { return graph().storage(t) == storage; });
      readable_.push_back(next);
    }
    if (more.valid()) readable_.push_back(more);
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
    if (op_name != "my::op" || graph().clone_of(original).valid() ||
        graph().effect(original) != Effect::kPure) {
      return;
    }
    // Everything it read must still be there.
    std::vector<Operand> operands(graph().operands(original).begin(),
                                  graph().operands(original).end());
    for (const Operand& operand : operands) {
      const auto end = readable_.end();
      if (operand.tensor.valid() && std::find(readable_.begin(), end, operand.tensor) == end)
        return;
    }
    OpBuilder clone = builder_.op(op_name, {BuilderOperand(operands)});
    const std::vector<Attribute> attributes(graph().attributes(original).begin(),
                                            graph().attributes(original).end());
    for (const Attribute& attribute : attributes) {
      std::vector<BuilderValue> values;
      for (const Value& value : graph().items(attribute)) values.push_back(as_builder_value(value));
      const std::string key(graph().text(attribute.key));
      if (attribute.is_list) {
        clone.attr(key, values);
      } else {
        clone.attr(key, values[0]);
      }
    }
    clone.clone_of(original);
    const std::vector<TensorId> results(graph().results(original).begin(),
                                        graph().results(original).end());
    for (const TensorId result : results) {
      readable_.push_back(clone.makes(random_name("again"), TensorType(graph().type(result))));
    }
  }

  BuilderValue as_builder_value(const Value& value) {
    if (const auto* text = std::get_if<Text>(&value)) return std::string(graph().text(text->id));
    if (const auto* blob = std::get_if<Blob>(&value)) return std::string(graph().text(blob->id));
    if (const auto* boolean = std::get_if<bool>(&value)) return *boolean;
    if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
    if (const auto* real = std::get_if<double>(&value)) return *real;
    if (const auto* dtype = std::get_if<DType>(&value)) return *dtype;
    return std::get<ScalarId>(value);
  }

  Dice dice_;
  RandomGraphOptions options_;
  int counter_ = 0;
  std::string prefix_;  // of names
  TensorId handle_;
  GraphBuilder builder_;
  std::vector<TensorId> readable_;  // of the versions that are current
  std::vector<TensorId> layers_;
  std::size_t gradients_ = 0;  // how many layers have one
  TensorId gradient_;          // the last
  std::vector<ScalarId> scalars_;
  std::vector<ScopeId> scopes_;     // none, or: a frame, a branch in it, a branch, a branch in that
  std::vector<NodeId> free_nodes_;  // in no scope
};

}  // namespace

std::uint64_t how_many(std::uint64_t wanted) {
  if (kSanitized) wanted = std::min<std::uint64_t>(wanted, 400);
  const char* const limit = std::getenv("EBB_GRAPHS");
  return limit == nullptr ? wanted : std::min<std::uint64_t>(wanted, std::stoul(limit));
}

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

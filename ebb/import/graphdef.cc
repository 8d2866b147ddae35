#include "ebb/import/graphdef.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <protozero/exception.hpp>

#include "ebb/base/utf8.h"
#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/edit.h"
#include "ebb/graph/repeatable.h"
#include "ebb/graph/verify.h"
#include "ebb/graph/verify_checks.h"
#include "ebb/import/graphdef_attributes.h"
#include "ebb/import/graphdef_error.h"
#include "ebb/import/graphdef_node.h"
#include "ebb/import/graphdef_notes.h"
#include "ebb/import/graphdef_results.h"
#include "ebb/import/graphdef_scopes.h"
#include "ebb/import/graphdef_wiring.h"
#include "ebb/import/tensorflow_ops.h"

namespace ebb {
namespace {

// A number in an attribute says how many results a node has. So many may come of such numbers, and
// one more for each byte of the file.
constexpr std::size_t kFreeResults = 1 << 20;

// A graph's texts must stay below 4 GiB, and a file has up to 2.
constexpr std::size_t kMostBytesKept = std::size_t{3} << 29;

class Importer {
 public:
  Importer(const GraphDefView& graphdef, Wiring wiring, std::size_t file_size,
           const GraphDefOptions& options)
      : most_results_(kFreeResults + file_size),
        graphdef_(graphdef),
        wiring_(std::move(wiring)),
        options_(options),
        accelerator_(read_device(options.devices.accelerator)),
        edit_(graph_),
        nodes_(graphdef.nodes.size()),
        results_read_(graphdef.nodes.size()),
        last_reader_(graphdef.nodes.size()) {}

  Result<Graph> run() {
    auto scopes = find_scopes(graphdef_, wiring_, edit_);
    if (!scopes) return fail(scopes.error());
    scopes_ = std::move(*scopes);
    look_at_wires();
    for (const std::uint32_t number : wiring_.order) {
      try {
        if (auto ok = add(number); !ok) return fail(ok.error());
      } catch (const protozero::exception&) {
        return refuse_graphdef("G01", fmt::format("node '{}' has a damaged attribute",
                                                  printable(graphdef_.nodes[number].name)));
      }
    }
    mark_clones();
    keep_what_lies_between();
    find_outputs();
    if (const auto found = find_violations(graph_, 1); !found.empty()) {
      Error error = as_error(found.front());
      error.kind = ErrorKind::kBadInput;
      return fail(std::move(error));
    }
    return std::move(graph_);
  }

 private:
  void look_at_wires() {
    for (std::uint32_t node = 0; node < graphdef_.nodes.size(); ++node) {
      std::uint32_t operand = 0;
      for (const Wire& wire : wiring_.inputs(node)) {
        if (wire.is_control) continue;
        results_read_[wire.node] = std::max(results_read_[wire.node], wire.result + 1);
        if (wire.closes_loop) {
          feeds_[wire.node].push_back(fmt::format("{}:{}", graphdef_.nodes[node].name, operand));
        }
        ++operand;
      }
    }
    for (std::uint32_t line = 0; line < wiring_.order.size(); ++line) {
      keeps_positions_ = keeps_positions_ || wiring_.order[line] != line;
    }
  }

  enum class Mark : std::uint8_t { kNone, kSwapOut, kSwapIn, kRecompute };

  // What `_ebb` says of a node, where it can be true; otherwise it is an attribute like others.
  Mark mark_of(std::uint32_t number) const {
    const NodeDefView& def = graphdef_.nodes[number];
    const auto value = def.attribute(kMark);
    const std::string_view mark = value ? text_of_attr_value(*value).value_or("") : "";
    if (mark == "recompute") return find_original(def) ? Mark::kRecompute : Mark::kNone;
    const auto inputs = wiring_.inputs(number);
    const auto data =
        std::count_if(inputs.begin(), inputs.end(), [](const Wire& w) { return !w.is_control; });
    if (data != 1 || inputs[0].closes_loop) return Mark::kNone;
    const auto made = graph_.results(nodes_[inputs[0].node]);
    if (inputs[0].result >= made.size()) return Mark::kNone;
    const TensorId source = made[inputs[0].result];
    if (mark == "swap_out" && (def.op == "Identity" || def.op == kCopyOutOp)) {
      return graph_.type(source).residence == Residence::kDevice ? Mark::kSwapOut : Mark::kNone;
    }
    if (mark == "swap_in" && (def.op == "Identity" || def.op == kCopyInOp)) {
      return graph_.op(graph_.producer(source)) == kSwapOut ? Mark::kSwapIn : Mark::kNone;
    }
    return Mark::kNone;
  }

  // Whose clone a node says it is.
  std::optional<std::uint32_t> find_original(const NodeDefView& def) const {
    const auto name = def.attribute(kMarkOf);
    const auto found = wiring_.numbers.find(name ? text_of_attr_value(*name).value_or("") : "");
    if (found == wiring_.numbers.end() || graphdef_.nodes[found->second].name == def.name) {
      return std::nullopt;
    }
    return found->second;
  }

  const TensorFlowOp* find_op(std::string_view name) {
    if (const TensorFlowOp* known = find_tensorflow_op(name)) return known;
    const auto asked = other_ops_.find(std::string(name));
    if (asked != other_ops_.end()) return asked->second ? &*asked->second : nullptr;
    std::optional<TensorFlowOp> op;
    if (options_.op_def) {
      if (const auto bytes = options_.op_def(name)) op = read_op_def(*bytes);
    }
    const auto& kept = other_ops_.emplace(std::string(name), std::move(op)).first->second;
    return kept ? &*kept : nullptr;
  }

  static NodeKind kind_of(const NodeDefView& def, bool has_inputs,
                          const std::vector<TensorType>& results) {
    if (has_inputs || results.size() != 1) return NodeKind::kOp;
    if (def.op == "Const") return NodeKind::kConst;
    if (def.op == "VarHandleOp" || def.op == "VariableV2" || def.op == "Variable") {
      return NodeKind::kParam;
    }
    if (def.op == "Placeholder" || def.op == "_Arg" || def.op == "PlaceholderV2") {
      return results[0].dtype == DType::kResource ? NodeKind::kParam : NodeKind::kInput;
    }
    return NodeKind::kOp;
  }

  static std::string_view usual_op(NodeKind kind) {
    switch (kind) {
      case NodeKind::kConst:
        return "Const";
      case NodeKind::kParam:
        return "VarHandleOp";
      default:
        return "Placeholder";
    }
  }

  Status add(std::uint32_t number) {
    const NodeDefView& def = graphdef_.nodes[number];
    const Mark mark = mark_of(number);
    const bool is_swap = mark == Mark::kSwapOut || mark == Mark::kSwapIn;
    const TensorFlowOp* op = find_op(def.op);
    auto types = find_results(def, op, results_read_[number], accelerator_, options_);
    if (!types) return fail(types.error());
    results_made_ += types->size();
    if (results_made_ > most_results_) {
      return refuse_graphdef(
          "G07", fmt::format("up to node '{}' there are {} results, more than a file of "
                             "this size has",
                             printable(def.name), results_made_));
    }
    std::vector<Operand> operands;
    std::vector<NodeId> controls;
    if (auto ok = find_inputs(number, operands, controls); !ok) return ok;
    if (op != nullptr) {
      const auto count = count_operands(def, *op);
      if (!count) return fail(count.error());
      if (*count != operands.size()) {
        return refuse_graphdef(
            "G09", fmt::format("node '{}' has {} inputs, and {} takes {}", printable(def.name),
                               operands.size(), def.op, *count));
      }
    }
    if (writes_into_operand(def.op)) {
      return refuse_graphdef(
          "G13", fmt::format("node '{}' ({}) writes into a tensor that others may be reading, and "
                             "nothing in the graph says when",
                             printable(def.name), def.op));
    }
    if (is_swap) {
      // What is copied keeps its type; where it lies is what the two are about.
      TensorType type = graph_.type(operands[0].tensor);
      type.residence = mark == Mark::kSwapOut ? Residence::kHost : Residence::kDevice;
      types->assign(1, type);
    }
    const NodeKind kind = is_swap ? NodeKind::kOp : kind_of(def, !def.inputs.empty(), *types);
    const std::string our_op = mark == Mark::kSwapOut  ? std::string(kSwapOut)
                               : mark == Mark::kSwapIn ? std::string(kSwapIn)
                                                       : fmt::format("{}{}", kOpPrefix, def.op);
    const NodeId node = edit_.add_node(kind, kind == NodeKind::kOp ? our_op : std::string());
    nodes_[number] = node;
    edit_.set_operands(node, operands);
    edit_.set_controls(node, controls);
    edit_.set_scope(node, scopes_[number]);
    if (kind == NodeKind::kOp && !is_swap) edit_.set_effect(node, effect_of(op, def));
    const bool are_all_there = !is_swap && add_attributes(node, number, mark, kind);
    if (keeps_positions_) add_note(node, kFilePosition, std::int64_t{number});
    set_device(node, def, is_swap);
    add_results(node, def, *types, operands, is_swap);
    if (!is_minimal_frame(def)) add_note(node, kNodeFrame, blob(def.frame));
    if (mark == Mark::kNone && are_all_there && write_node(parts_of(number)) == def.bytes)
      return {};
    // The bytes as they stand, where those that would be written from the graph differ.
    add_note(node, kNodeBytes, blob(def.bytes));
    bytes_kept_ += def.bytes.size();
    if (bytes_kept_ > kMostBytesKept) {
      return refuse_graphdef(
          "G08", fmt::format("node '{}': more than {} are not in protobuf's own order of "
                             "fields, and are kept twice; write the file again",
                             printable(def.name), to_human(Bytes{kMostBytesKept})));
    }
    return {};
  }

  static bool is_minimal_frame(const NodeDefView& def) {
    std::string frame;
    append_node_frame(frame, def.bytes.size());
    return frame == def.frame;
  }

  Status find_inputs(std::uint32_t number, std::vector<Operand>& operands,
                     std::vector<NodeId>& controls) {
    const NodeDefView& def = graphdef_.nodes[number];
    for (const Wire& wire : wiring_.inputs(number)) {
      if (wire.closes_loop) {
        if (wire.result != 0) {
          return refuse_graphdef(
              "G04", fmt::format("node '{}' reads '{}:{}', and there is one round to come",
                                 printable(def.name), printable(graphdef_.nodes[wire.node].name),
                                 wire.result));
        }
        operands.push_back({});
        continue;
      }
      const NodeId maker = nodes_[wire.node];
      if (wire.is_control) {
        if (last_reader_[wire.node] != number + 1) controls.push_back(maker);
        last_reader_[wire.node] = number + 1;
        continue;
      }
      const auto results = graph_.results(maker);
      if (wire.result >= results.size()) {
        return refuse_graphdef(
            "G04",
            fmt::format("node '{}' reads '{}:{}', and '{}' makes {} tensors", printable(def.name),
                        graph_.name(maker), wire.result, graph_.name(maker), results.size()));
      }
      operands.push_back({.tensor = results[wire.result]});
    }
    return {};
  }

  [[nodiscard]] Effect effect_of(const TensorFlowOp* op, const NodeDefView& def) const {
    const bool is_fed = may_be_fed(def.op) || (options_.is_fed && options_.is_fed(def.name));
    if (op == nullptr || is_fed) return Effect::kEffect;
    if (is_random(*op)) return Effect::kRandom;
    const bool takes_reference = std::any_of(op->operands.begin(), op->operands.end(),
                                             [](const auto& arg) { return arg.is_reference; });
    return op->is_stateful || takes_reference ? Effect::kEffect : Effect::kPure;
  }

  void add_note(NodeId node, std::string_view key, const Value& value) {
    edit_.add_attribute(node, edit_.intern(key), false, std::span(&value, 1));
  }
  Value text(std::string_view text) { return Text{edit_.intern(text)}; }
  Value blob(std::string_view bytes) { return Blob{edit_.intern(bytes)}; }

  // Clones have the attributes of their originals; what marks them is not among these.
  bool is_mark(std::string_view key, const NodeDefView& def) const {
    if (key == kMark || key == kMarkOf) return true;
    const auto original = find_original(def);
    return key == kDoNotRemove && original && !graphdef_.nodes[*original].attribute(kDoNotRemove);
  }

  // Of two attributes of one name the last counts.
  bool has_attribute_twice(const NodeDefView& def) {
    keys_.clear();
    for (const auto& [key, value] : def.attributes) keys_.push_back(key);
    std::sort(keys_.begin(), keys_.end());
    return std::adjacent_find(keys_.begin(), keys_.end()) != keys_.end();
  }

  // Whether all of the file's attributes are in the graph.
  bool add_attributes(NodeId node, std::uint32_t number, Mark mark, NodeKind kind) {
    const NodeDefView& def = graphdef_.nodes[number];
    // Export knows the usual one by its type.
    const bool has_type = def.attribute("dtype") || def.attribute("T");
    if (kind != NodeKind::kOp && (def.op != usual_op(kind) || !has_type)) {
      add_note(node, kTensorFlowOp, text(def.op));
    }
    const bool has_twice = has_attribute_twice(def);
    std::unordered_map<std::string_view, const char*> last;
    if (has_twice) {
      for (const auto& [key, value] : def.attributes) last[key] = value.data();
    }
    bool are_all_there = !has_twice;
    for (const auto& [key, value] : def.attributes) {
      if (has_twice && last[key] != value.data()) continue;
      if (!is_utf8(key) || key.empty() || is_reserved(key)) {
        are_all_there = false;
      } else if (mark == Mark::kNone || !is_mark(key, def)) {
        add_attr_value(edit_, graph_, node, key, value);
      }
    }
    const auto fed = feeds_.find(number);
    if (fed != feeds_.end()) {
      std::vector<Value> items;
      for (const std::string& merge : fed->second) items.push_back(text(merge));
      edit_.add_attribute(node, edit_.intern(kFeeds), true, items);
    }
    if (def.is_in_order && !def.rest.empty()) add_note(node, kNodeRest, blob(def.rest));
    return are_all_there;
  }

  void set_device(NodeId node, const NodeDefView& def, bool is_swap) {
    if (!is_swap) {
      if (!def.device.empty() && is_utf8(def.device)) edit_.set_device(node, def.device);
      return;
    }
    const auto value = def.attribute(kMarkDevice);
    const std::string_view device = value ? text_of_attr_value(*value).value_or("") : "";
    if (!device.empty() && is_utf8(device)) edit_.set_device(node, device);
  }

  // Whether result k is operand k's bytes under another name.
  bool is_view(NodeId node, const TensorType& result, const Operand& operand) const {
    if (!operand.tensor.valid() || graph_.effect(node) != Effect::kPure) return false;
    const TensorType& source = graph_.type(operand.tensor);
    const auto size = extent(result);
    const auto source_size = extent(source);
    const bool same_size = !size || !source_size || *size == *source_size;
    const bool same_kind = (source.dtype == DType::kResource) == (result.dtype == DType::kResource);
    return same_size && same_kind && source.residence == result.residence &&
           graph_.device(node) == graph_.device(graph_.producer(operand.tensor));
  }

  void add_results(NodeId node, const NodeDefView& def, const std::vector<TensorType>& types,
                   const std::vector<Operand>& operands, bool is_swap) {
    if (types.empty()) {
      edit_.set_label(node, edit_.intern(def.name));
      return;
    }
    const bool hands_on = !is_swap && hands_on_bytes(graph_.op(node));
    for (std::uint32_t i = 0; i < types.size(); ++i) {
      const SymbolId name = edit_.intern(input_text(def.name, i));
      const TypeId type = edit_.intern(types[i]);
      if (hands_on && i < operands.size() && is_view(node, types[i], operands[i])) {
        const TensorId source = operands[i].tensor;
        edit_.add_shared_result(node, name, type, source, graph_.offset(source));
      } else {
        edit_.add_result(node, name, type);
      }
    }
  }

  // As it would be written from the graph, if all of its attributes are there.
  NodeDefParts parts_of(std::uint32_t number) {
    const NodeDefView& def = graphdef_.nodes[number];
    NodeDefParts parts{.name = def.name,
                       .op = def.op,
                       .device = is_utf8(def.device) ? def.device : std::string_view(),
                       .inputs = {},
                       .attributes = {def.attributes.begin(), def.attributes.end()},
                       .rest = def.is_in_order ? def.rest : std::string_view()};
    // Counted from the other end, so as not to be taken for what find_inputs noted.
    const std::uint32_t us = ~number;
    for (const Wire& wire : wiring_.inputs(number)) {
      const std::string_view from = graphdef_.nodes[wire.node].name;
      if (!wire.is_control) {
        parts.inputs.push_back(input_text(from, wire.result));
      } else if (std::exchange(last_reader_[wire.node], us) != us) {
        parts.inputs.push_back(fmt::format("^{}", from));
      }
    }
    return parts;
  }

  // Once all nodes are there: an original may stand anywhere.
  void mark_clones() {
    bool has_clones = false;
    for (std::uint32_t number = 0; number < graphdef_.nodes.size(); ++number) {
      if (mark_of(number) != Mark::kRecompute) continue;
      const auto original = find_original(graphdef_.nodes[number]);
      if (!original) continue;
      edit_.set_clone_of(nodes_[number], nodes_[*original]);
      has_clones = true;
    }
    if (!has_clones) return;
    // A mark that is not true is an attribute like others.
    Findings wrong("", graph_.node_count());
    check_clones_repeat_their_original(graph_, wrong);
    for (const Violation& each : wrong.take()) {
      edit_.set_clone_of(each.node, NodeId());
      const NodeDefView& def = graphdef_.nodes[wiring_.numbers.at(graph_.name(each.node))];
      for (const std::string_view key : {kMark, kMarkOf, kDoNotRemove}) {
        const auto value = def.attribute(key);
        if (value && graph_.find_attribute(each.node, key) == nullptr) {
          add_attr_value(edit_, graph_, each.node, key, *value);
        }
      }
    }
  }

  void keep_what_lies_between() {
    for (const auto& [number, bytes] : graphdef_.between) {
      if (number < nodes_.size()) {
        add_note(nodes_[number], kBytesBefore, blob(bytes));
      } else {
        const NodeId file = edit_.add_node(NodeKind::kOp, kFileOp);
        std::string name(kFileNode);
        while (edit_.is_taken(edit_.intern(name))) name += ' ';
        edit_.set_label(file, edit_.intern(name));
        add_note(file, kFileRest, blob(bytes));
      }
    }
  }

  // A file does not say what will be asked for: what nobody reads is there to be returned. Not so
  // what has a clone, which the readers read instead.
  void find_outputs() {
    std::vector<bool> has_clone(graph_.node_count());
    for (const NodeId node : graph_.nodes()) {
      if (const NodeId original = graph_.clone_of(node); original.valid()) {
        has_clone[original.index()] = true;
      }
    }
    std::vector<TensorId> outputs;
    for (std::uint32_t number = 0; number < nodes_.size(); ++number) {
      if (results_read_[number] > 0 || !graph_.is_op(nodes_[number])) continue;
      if (has_clone[nodes_[number].index()]) continue;
      for (const TensorId result : graph_.results(nodes_[number])) outputs.push_back(result);
    }
    edit_.set_outputs(outputs);
  }

  const std::size_t most_results_;
  std::size_t results_made_ = 0;
  const GraphDefView& graphdef_;
  Wiring wiring_;
  const GraphDefOptions& options_;
  DeviceName accelerator_;
  Graph graph_;
  GraphEdit edit_;
  std::vector<NodeId> nodes_;                // by number in the file
  std::vector<std::uint32_t> results_read_;  // one more than the highest that somebody reads
  std::vector<ScopeId> scopes_;
  std::unordered_map<std::uint32_t, std::vector<std::string>> feeds_;  // by NextIteration
  std::unordered_map<std::string, std::optional<TensorFlowOp>> other_ops_;
  std::vector<std::uint32_t> last_reader_;  // by number: who was seen to wait for it
  std::vector<std::string_view> keys_;
  std::size_t bytes_kept_ = 0;
  bool keeps_positions_ = false;
};

}  // namespace

Result<Graph> import_graphdef(std::string_view bytes, const GraphDefOptions& options) {
  if (auto ok = check_device_pattern(options.devices.accelerator, "accelerator"); !ok) {
    return fail(ok.error());
  }
  const auto graphdef = read_graphdef(bytes);
  if (!graphdef) return fail(graphdef.error());
  auto wiring = wire_up(*graphdef);
  if (!wiring) return fail(wiring.error());
  return Importer(*graphdef, std::move(*wiring), bytes.size(), options).run();
}

}  // namespace ebb

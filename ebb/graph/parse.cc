#include "ebb/graph/parse.h"

#include <fmt/format.h>

#include "ebb/base/nearest.h"
#include "ebb/base/utf8.h"
#include "ebb/graph/edit.h"
#include "ebb/graph/parse_literal.h"
#include "ebb/graph/parse_type.h"
#include "ebb/graph/print.h"
#include "ebb/graph/references.h"
#include "ebb/graph/text_cursor.h"
#include "ebb/graph/verify.h"

namespace ebb {
namespace {

struct ResultLine {  // one result, left of '='
  SymbolId name;
  TypeId type;
  TensorId shares;  // with whom it shares bytes; not valid: with nobody
  Bytes offset;
  const char* at = nullptr;
};

struct CloneClause {
  NodeId node;
  std::string original;
  const char* at = nullptr;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), cursor_(text), edit_(parsed_.graph) {}

  Result<ParsedGraph> run() {
    if (!parse_file()) return fail(cursor_.take_error());
    settle_clones();
    if (!references_.settle(cursor_, graph(), parsed_.lines)) return fail(cursor_.take_error());
    return std::move(parsed_);
  }

 private:
  Graph& graph() { return parsed_.graph; }

  bool parse_file() {
    if (text_.size() >= Symbols::kMaxBytes) {
      return cursor_.error_at(nullptr, "P01", "the text is larger than 4 GiB; split the graph");
    }
    if (const std::size_t bad = first_invalid_utf8(text_); bad < text_.size()) {
      return cursor_.error_at(text_.data() + bad, "P02",
                              "this byte is not UTF-8; a graph is a UTF-8 text");
    }
    cursor_.skip_blank_lines();
    if (cursor_.at_end()) {
      return cursor_.error("P03", "the text is empty; a graph begins with 'graph NAME {'");
    }
    if (!cursor_.take_word("graph")) {
      return cursor_.error("P04",
                           fmt::format("expected 'graph NAME {{', found {}", cursor_.here()));
    }
    cursor_.skip_spaces();
    std::string_view graph_name;
    if (!cursor_.take_name(graph_name, "the graph's name")) return false;
    parsed_.graph = Graph(graph_name);
    // A line is rarely shorter than 32 bytes; over-reserving a small text costs nothing.
    edit_.reserve(text_.size() / 64 + 16, text_.size() / 8);
    if (!cursor_.expect('{') || !cursor_.expect_line_end()) return false;
    bool returned = false;
    while (true) {
      cursor_.skip_blank_lines();
      if (cursor_.at_end()) {
        return cursor_.error("P05",
                             "the text ends inside the graph; is it truncated? A graph ends "
                             "with a return line and '}'");
      }
      if (cursor_.take('}')) break;
      if (returned) {
        return cursor_.error("P06", "a line after the return line; return stands last");
      }
      if (!parse_line(returned)) return false;
    }
    if (!returned) {
      return cursor_.error("P07",
                           "the graph has no return line; write 'return %a, %b' or 'return'");
    }
    if (!cursor_.expect_line_end()) return false;
    cursor_.skip_blank_lines();
    if (!cursor_.at_end()) {
      return cursor_.error("P06", "text after the end of the graph; a file holds one graph");
    }
    return true;
  }

  bool parse_line(bool& returned) {
    line_ = cursor_.line();
    switch (cursor_.peek()) {
      case '%':
        return parse_operation();
      case '$':
        return parse_scalar_operation();
      default:
        return parse_word_line(returned);
    }
  }

  // A line that begins with a keyword or a label.
  bool parse_word_line(bool& returned) {
    const char* at = cursor_.position();
    const bool quoted = cursor_.peek() == '"';
    std::string_view word;
    if (!cursor_.take_name(word,
                           "a line: 'input', 'param', 'const', 'scalar', '%result: type = "
                           "op(...)', 'label: op(...)' or 'return'")) {
      return false;
    }
    cursor_.skip_spaces();
    if (cursor_.take(':')) return parse_labelled(word, at);
    if (!quoted) {
      if (word == "input") return parse_declaration(NodeKind::kInput);
      if (word == "param") return parse_declaration(NodeKind::kParam);
      if (word == "const") return parse_declaration(NodeKind::kConst);
      if (word == "scalar") return parse_scalar_declaration();
      if (word == "frame") return parse_scope(Scope::Kind::kFrame);
      if (word == "branch") return parse_scope(Scope::Kind::kBranch);
      if (word == "return") {
        returned = true;
        return parse_return();
      }
    }
    NearestWord nearest(word);
    for (const std::string_view keyword : kLineKeywords) nearest.offer(keyword);
    return cursor_.error_at(
        at, "P08",
        nearest.word().empty()
            ? fmt::format("'{}' begins no line; an operation without results is written "
                          "'{}: op(...)'",
                          word, word)
            : fmt::format("'{}' begins no line; did you mean '{}'?", word, nearest.word()));
  }

  bool parse_return() {
    std::vector<TensorId> outputs;
    cursor_.skip_spaces();
    if (!cursor_.at_line_end()) {
      do {
        cursor_.skip_spaces();
        TensorId output;
        if (!cursor_.expect('%') || !parse_tensor_ref(NodeId(), output)) return false;
        outputs.push_back(output);
        cursor_.skip_spaces();
      } while (cursor_.take(','));
    }
    edit_.set_outputs(outputs);
    return cursor_.expect_line_end();
  }

  bool parse_scope(Scope::Kind kind) {
    const char* at = cursor_.position();
    std::string_view name;
    if (!cursor_.take_name(name, "the scope's name")) return false;
    const SymbolId symbol = edit_.intern(name);
    if (graph().find_scope(name).valid()) {
      return cursor_.error_at(at, "P09", fmt::format("scope '{}' is defined twice", name));
    }
    ScopeId parent;
    cursor_.skip_spaces();
    if (cursor_.take_word("in") && !parse_scope_ref(parent)) return false;
    edit_.add_scope(kind, symbol, parent);
    return cursor_.expect_line_end();
  }

  bool parse_scope_ref(ScopeId& scope) {
    cursor_.skip_spaces();
    const char* at = cursor_.position();
    std::string_view name;
    if (!cursor_.take_name(name, "the scope's name")) return false;
    scope = graph().find_scope(name);
    if (scope.valid()) return true;
    NearestWord nearest(name);
    for (const ScopeId known : graph().scopes()) nearest.offer(graph().name(known));
    return cursor_.error_at(
        at, "P10",
        nearest.word().empty()
            ? fmt::format("scope '{}' is not defined above; write 'frame {}' or 'branch {}' first",
                          name, name, name)
            : fmt::format("scope '{}' is not defined above; did you mean '{}'?", name,
                          nearest.word()));
  }

  NodeId add_node(NodeKind kind, std::string_view op = {}) {
    parsed_.lines.push_back(line_);
    return edit_.add_node(kind, op);
  }

  bool parse_declaration(NodeKind kind) {
    cursor_.skip_spaces();
    if (!cursor_.expect('%')) return false;
    results_.clear();
    if (!parse_result()) return false;
    const NodeId node = add_node(kind);
    add_results(node);
    return parse_clauses(node) && cursor_.expect_line_end();
  }

  bool parse_scalar_declaration() {
    cursor_.skip_spaces();
    SymbolId name;
    DType dtype{};
    if (!cursor_.expect('$') || !parse_scalar_result(name, dtype)) return false;
    const NodeId node = add_node(NodeKind::kScalar);
    edit_.add_scalar_result(node, name, dtype);
    return parse_clauses(node) && cursor_.expect_line_end();
  }

  bool parse_labelled(std::string_view label, const char* at) {
    SymbolId name;
    if (!define(label, at, name)) return false;
    NodeId node;
    if (!parse_call(node)) return false;
    edit_.set_label(node, name);
    return parse_clauses(node) && cursor_.expect_line_end();
  }

  bool parse_scalar_operation() {
    SymbolId name;
    DType dtype{};
    cursor_.take('$');
    if (!parse_scalar_result(name, dtype) || !cursor_.expect('=')) return false;
    NodeId node;
    if (!parse_call(node)) return false;
    edit_.add_scalar_result(node, name, dtype);
    return parse_clauses(node) && cursor_.expect_line_end();
  }

  bool parse_operation() {
    results_.clear();
    do {
      cursor_.skip_spaces();
      if (!cursor_.expect('%') || !parse_result()) return false;
      cursor_.skip_spaces();
    } while (cursor_.take(','));
    if (!cursor_.expect('=')) return false;
    NodeId node;
    if (!parse_call(node)) return false;
    add_results(node);
    return parse_clauses(node) && cursor_.expect_line_end();
  }

  void add_results(NodeId node) {
    for (const ResultLine& result : results_) {
      if (result.shares.valid()) {
        edit_.add_shared_result(node, result.name, result.type, result.shares, result.offset);
      } else {
        edit_.add_result(node, result.name, result.type);
      }
    }
  }

  // After the '%': NAME ':' type ['~' %x ['+' bytes]].
  bool parse_result() {
    ResultLine result;
    result.at = cursor_.position();
    std::string_view name;
    if (!cursor_.take_name(name, "the tensor's name") || !define(name, result.at, result.name)) {
      return false;
    }
    for (const ResultLine& other : results_) {
      if (other.name == result.name) return defined_twice(name, result.at, line_);
    }
    cursor_.skip_spaces();
    if (!cursor_.expect(':') || !parse_type(cursor_, type_)) return false;
    result.type = edit_.intern(type_);
    cursor_.skip_spaces();
    if (cursor_.take('~')) {
      cursor_.skip_spaces();
      if (!cursor_.expect('%') ||
          !parse_tensor_ref(NodeId(static_cast<std::uint32_t>(graph().node_count())),
                            result.shares)) {
        return false;
      }
      cursor_.skip_spaces();
      if (cursor_.take('+') && !parse_bytes_at(result.offset)) return false;
    }
    results_.push_back(result);
    return true;
  }

  bool parse_scalar_result(SymbolId& symbol, DType& dtype) {
    const char* at = cursor_.position();
    std::string_view name;
    if (!cursor_.take_name(name, "the scalar's name") || !define(name, at, symbol)) return false;
    cursor_.skip_spaces();
    if (!cursor_.expect(':')) return false;
    cursor_.skip_spaces();
    const char* type_at = cursor_.position();
    if (!parse_dtype(cursor_, dtype)) return false;
    if (!is_scalar_dtype(dtype)) {
      return cursor_.error_at(
          type_at, "P11", fmt::format("a scalar is f64, i64 or bool, not {}", ebb::name(dtype)));
    }
    cursor_.skip_spaces();
    return true;
  }

  bool define(std::string_view name, const char* at, SymbolId& symbol) {
    const NodeId node = graph().find_node(name);
    const TensorId tensor = graph().find_tensor(name);
    symbol = edit_.intern(name);
    if (!node.valid() && !tensor.valid()) return true;
    const NodeId where = node.valid() ? node : graph().producer(tensor);
    return defined_twice(name, at, parsed_.lines[where.index()]);
  }

  bool defined_twice(std::string_view name, const char* at, int first_line) {
    return cursor_.error_at(at, "P09",
                            fmt::format("'{}' is defined already on line {}; names are unique, "
                                        "whatever their sigil",
                                        name, first_line));
  }

  // After the '%'. An unknown name is remembered: it may be defined by a later line.
  bool parse_tensor_ref(NodeId user, TensorId& tensor) {
    const char* at = cursor_.position();
    std::string_view name;
    if (!cursor_.take_name(name, "a tensor's name")) return false;
    tensor = graph().find_tensor(name);
    if (!tensor.valid()) references_.note(user, References::Kind::kTensor, name, at, cursor_);
    return true;
  }

  bool parse_call(NodeId& node) {
    cursor_.skip_spaces();
    std::string_view op;
    if (!cursor_.take_op(op)) return false;
    const bool arithmetic = is_host_arithmetic(op);
    node = add_node(NodeKind::kOp, op);
    if (!cursor_.expect('(')) return false;
    cursor_.skip_spaces();
    if (arithmetic) {
      values_.clear();
      if (!parse_value_list(node, ')')) return false;
      edit_.set_scalar_arguments(node, values_);
      return true;
    }
    return parse_operands(node);
  }

  bool parse_operands(NodeId node) {
    using Position = Operand::Position;
    operands_.clear();
    if (cursor_.take(')')) return true;
    Position position = Position::kAlone;
    while (true) {
      cursor_.skip_spaces();
      bool empty_list = false;
      if (position == Position::kAlone && cursor_.take('[')) {
        cursor_.skip_spaces();
        empty_list = cursor_.take(']');
        position = empty_list ? Position::kEmptyList : Position::kListFirst;
      }
      Operand operand;
      if (!empty_list && !parse_operand(node, operand)) return false;
      operand.position = position;
      operands_.push_back(operand);
      cursor_.skip_spaces();
      bool in_list = position == Position::kListFirst || position == Position::kListNext;
      if (in_list && cursor_.take(']')) {
        in_list = false;
        cursor_.skip_spaces();
      }
      position = in_list ? Position::kListNext : Position::kAlone;
      if (cursor_.take(',')) continue;
      if (!in_list && cursor_.take(')')) break;
      return cursor_.error("P04", fmt::format("expected ',' or '{}', found {}", in_list ? ']' : ')',
                                              cursor_.here()));
    }
    edit_.set_operands(node, operands_);
    return true;
  }

  bool parse_operand(NodeId node, Operand& operand) {
    if (cursor_.take('%')) {
      if (!parse_tensor_ref(node, operand.tensor)) return false;
      if (cursor_.take('!')) operand.access = Access::kUpdate;
      return true;
    }
    if (cursor_.take_word("none")) return true;
    if (cursor_.peek() == '[') {
      return cursor_.error("P15", "a list inside a list; operand lists do not nest");
    }
    if (cursor_.peek() == '$') {
      return cursor_.error("P16",
                           "a scalar is no operand; give it as an attribute, as in "
                           "op(%a) {alpha = $lr}");
    }
    return cursor_.error("P04", fmt::format("expected an operand (%tensor, %tensor!, none or a "
                                            "list), found {}",
                                            cursor_.here()));
  }

  // Values up to `close`, appended to values_.
  bool parse_value_list(NodeId node, char close) {
    cursor_.skip_spaces();
    if (cursor_.take(close)) return true;
    while (true) {
      cursor_.skip_spaces();
      if (!parse_value(node)) return false;
      cursor_.skip_spaces();
      if (cursor_.take(close)) return true;
      if (!cursor_.take(',')) {
        return cursor_.error("P04",
                             fmt::format("expected ',' or '{}', found {}", close, cursor_.here()));
      }
    }
  }

  bool parse_value(NodeId node) {
    const char c = cursor_.peek();
    if (c == '$') {
      cursor_.take('$');
      const char* at = cursor_.position();
      std::string_view name;
      if (!cursor_.take_name(name, "a scalar's name")) return false;
      const ScalarId scalar = graph().find_scalar(name);
      if (!scalar.valid()) references_.note(node, References::Kind::kScalar, name, at, cursor_);
      values_.push_back(scalar.valid() ? Value(scalar) : Value());
      return true;
    }
    if (c == '[') return cursor_.error("P15", "a list inside a list; attribute lists do not nest");
    if (c == '%') {
      return cursor_.error("P16", "a tensor is no attribute; give it as an operand, as in op(%a)");
    }
    return parse_literal(cursor_, edit_, values_.emplace_back());
  }

  bool parse_attributes(NodeId node) {
    cursor_.skip_spaces();
    if (cursor_.take('}')) return true;
    while (true) {
      cursor_.skip_spaces();
      const char* at = cursor_.position();
      std::string_view name;
      if (!cursor_.take_name(name, "an attribute's name")) return false;
      const SymbolId key = edit_.intern(name);
      for (const Attribute& attribute : graph().attributes(node)) {
        if (attribute.key == key) {
          return cursor_.error_at(at, "P19",
                                  fmt::format("attribute '{}' is given twice", graph().text(key)));
        }
      }
      cursor_.skip_spaces();
      if (!cursor_.expect('=')) return false;
      cursor_.skip_spaces();
      values_.clear();
      const bool is_list = cursor_.take('[');
      if (is_list ? !parse_value_list(node, ']') : !parse_value(node)) return false;
      edit_.add_attribute(node, key, is_list, values_);
      cursor_.skip_spaces();
      if (cursor_.take('}')) return true;
      if (!cursor_.take(',')) {
        return cursor_.error("P04", fmt::format("expected ',' or '}}', found {}", cursor_.here()));
      }
    }
  }

  // What may follow a declaration or a call, in any order, each at most once.
  bool parse_clauses(NodeId node) {
    enum Clause : unsigned {
      kAttributes,
      kEffect,
      kClone,
      kScope,
      kDevice,
      kAfter,
      kTakes,
      kSpace
    };
    unsigned seen = 0;
    while (true) {
      cursor_.skip_spaces();
      if (cursor_.at_line_end()) return true;
      const char* at = cursor_.position();
      Clause clause{};
      bool good = true;
      if (cursor_.take('{')) {
        clause = kAttributes;
        good = parse_attributes(node);
      } else if (cursor_.peek() == '@') {
        clause = kDevice;
        good = parse_device(node);
      } else {
        const std::string_view word = cursor_.take_word_chars();
        if (word == "after") {
          clause = kAfter;
          good = parse_after(node);
        } else if (word == "takes") {
          clause = kTakes;
          good = parse_takes(node);
        } else if (word == "workspace") {
          clause = kSpace;
          good = parse_workspace(node);
        } else if (word == "random" || word == "effect") {
          clause = kEffect;
          edit_.set_effect(node, word == "random" ? Effect::kRandom : Effect::kEffect);
        } else if (word == "clone") {
          clause = kClone;
          good = parse_clone(node);
        } else if (word == "in") {
          clause = kScope;
          ScopeId scope;
          good = parse_scope_ref(scope);
          if (good) edit_.set_scope(node, scope);
        } else {
          return unknown_clause(at, word);
        }
      }
      if (!good) return false;
      if ((seen & (1U << clause)) != 0) {
        return cursor_.error_at(at, "P19", "this clause stands twice on the line");
      }
      seen |= 1U << clause;
      const bool computes =
          clause == kTakes || clause == kSpace || clause == kEffect || clause == kClone;
      if (computes && !graph().is_op(node)) {
        return cursor_.error_at(at, "P20",
                                "this clause is for operations; inputs, parameters, "
                                "constants and scalars compute nothing");
      }
    }
  }

  bool unknown_clause(const char* at, std::string_view word) {
    NearestWord nearest(word);
    for (const std::string_view known :
         {"after", "takes", "workspace", "random", "effect", "clone", "in"}) {
      nearest.offer(known);
    }
    if (!nearest.word().empty()) {
      return cursor_.error_at(
          at, "P04", fmt::format("unexpected '{}'; did you mean '{}'?", word, nearest.word()));
    }
    return cursor_.error_at(at, "P04",
                            fmt::format("expected the end of the line or one of {{...}}, after, "
                                        "takes, workspace, random, effect, clone of, in, @\"...\", "
                                        "found {}",
                                        cursor_.describe(at)));
  }

  bool parse_device(NodeId node) {
    cursor_.take('@');
    const char* at = cursor_.position();
    std::string_view device;
    if (cursor_.peek() != '"') {
      return cursor_.error("P14", "a device is quoted, as @\"cuda:1\"; '@host' belongs to a type");
    }
    if (!cursor_.take_quoted(device)) return false;
    if (device.empty()) return cursor_.error_at(at, "P14", "the device's name is empty");
    edit_.set_device(node, device);
    return true;
  }

  bool parse_node_ref(NodeId user, NodeId& node) {
    cursor_.skip_spaces();
    const char* at = cursor_.position();
    std::string_view name;
    if (cursor_.peek() == '%' || cursor_.peek() == '$') {
      return cursor_.error("P16", "a node is named without a sigil, as in 'after gx'");
    }
    if (!cursor_.take_name(name, "a node's name")) return false;
    node = graph().find_node(name);
    if (!node.valid() || node == user) {
      references_.note(user, References::Kind::kNode, name, at, cursor_);
    }
    return true;
  }

  bool parse_after(NodeId node) {
    controls_.clear();
    do {
      NodeId control;
      if (!parse_node_ref(node, control)) return false;
      if (control.valid()) controls_.push_back(control);
      cursor_.skip_spaces();
    } while (cursor_.take(','));
    edit_.set_controls(node, controls_);
    return true;
  }

  bool parse_clone(NodeId node) {
    cursor_.skip_spaces();
    if (!cursor_.take_word("of")) {
      return cursor_.error("P04",
                           fmt::format("expected 'clone of NODE', found {}", cursor_.here()));
    }
    cursor_.skip_spaces();
    const char* at = cursor_.position();
    std::string_view name;
    if (!cursor_.take_name(name, "a node's name")) return false;
    clones_.push_back({node, std::string(name), at});
    return true;
  }

  // A clone does not wait for its original, which may therefore stand below it.
  void settle_clones() {
    for (const CloneClause& clone : clones_) {
      const NodeId original = graph().find_node(clone.original);
      edit_.set_clone_of(clone.node, original);
      if (!original.valid()) {
        references_.note(clone.node, References::Kind::kNode, clone.original, clone.at, cursor_);
      }
    }
  }

  bool parse_bytes_at(Bytes& bytes) {
    cursor_.skip_spaces();
    const char* at = cursor_.position();
    const auto parsed = parse_bytes(cursor_.take_number_chars());
    if (!parsed) return cursor_.error_at(at, "P21", parsed.error().message);
    bytes = *parsed;
    return true;
  }

  bool parse_workspace(NodeId node) {
    Bytes bytes;
    if (!parse_bytes_at(bytes)) return false;
    edit_.set_workspace(node, bytes);
    return true;
  }

  bool parse_takes(NodeId node) {
    cursor_.skip_spaces();
    const char* at = cursor_.position();
    const auto parsed = parse_duration(cursor_.take_number_chars());
    if (!parsed) return cursor_.error_at(at, "P21", parsed.error().message);
    edit_.set_takes(node, *parsed);
    return true;
  }

  std::string_view text_;
  TextCursor cursor_;
  ParsedGraph parsed_;
  GraphEdit edit_;
  int line_ = 0;

  // Scratch, kept to save allocations.
  TensorType type_;
  std::vector<ResultLine> results_;
  std::vector<Operand> operands_;
  std::vector<NodeId> controls_;
  std::vector<Value> values_;

  References references_;
  std::vector<CloneClause> clones_;
};

}  // namespace

Result<ParsedGraph> parse(std::string_view text) { return Parser(text).run(); }

Result<Graph> parse_valid(std::string_view text) {
  auto parsed = parse(text);
  if (!parsed) return fail(std::move(parsed.error()));
  if (const auto found = find_violations(parsed->graph, 1); !found.empty()) {
    return fail(as_error(found.front(), *parsed));
  }
  return std::move(parsed->graph);
}

}  // namespace ebb

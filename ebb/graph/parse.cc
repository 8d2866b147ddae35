#include "ebb/graph/parse.h"

#include <algorithm>

#include <fmt/format.h>

#include "ebb/base/nearest.h"
#include "ebb/base/utf8.h"
#include "ebb/graph/parse_type.h"
#include "ebb/graph/parser.h"
#include "ebb/graph/verify.h"

namespace ebb {

Result<ParsedGraph> Parser::run() {
  if (!parse_file()) return fail(cursor_.take_error());
  settle_clones();
  if (!references_.settle(cursor_, graph(), parsed_.lines)) return fail(cursor_.take_error());
  return std::move(parsed_);
}

bool Parser::parse_file() {
  if (text_.size() >= Symbols::kMaxBytes) {
    return cursor_.error_at(nullptr, "P01", "the text is larger than 4 GiB; split the graph");
  }
  if (const std::size_t bad = first_invalid_utf8(text_); bad < text_.size()) {
    return cursor_.error_at(text_.data() + bad, "P02",
                            "this byte is not UTF-8; a graph is a UTF-8 text");
  }
  // The mark that some editors put in front of UTF-8.
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text_.starts_with(kMark)) {
    for (const char c : kMark) cursor_.take(c);
  }
  cursor_.skip_blank_lines();
  if (cursor_.at_end()) {
    return cursor_.error("P03", "the text is empty; a graph begins with 'graph NAME {'");
  }
  if (!cursor_.take_word("graph")) {
    return cursor_.error("P04", fmt::format("expected 'graph NAME {{', found {}", cursor_.here()));
  }
  cursor_.skip_spaces();
  std::string_view graph_name;
  if (!cursor_.take_name(graph_name, "the graph's name")) return false;
  parsed_.graph = Graph(graph_name);
  const auto lines = static_cast<std::size_t>(std::count(text_.begin(), text_.end(), '\n'));
  const std::size_t nodes = std::min(lines, text_.size() / 24);  // blank lines are no nodes
  edit_.reserve(nodes + nodes / 8, text_.size() / 4);
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
    return cursor_.error("P07", "the graph has no return line; write 'return %a, %b' or 'return'");
  }
  if (!cursor_.expect_line_end()) return false;
  cursor_.skip_blank_lines();
  if (!cursor_.at_end()) {
    return cursor_.error("P06", "text after the end of the graph; a file holds one graph");
  }
  return true;
}

bool Parser::parse_line(bool& returned) {
  line_ = cursor_.line();
  unescaped_names_.clear();
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
bool Parser::parse_word_line(bool& returned) {
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
    if (word == "frame") return parse_scope(ScopeKind::kFrame);
    if (word == "branch") return parse_scope(ScopeKind::kBranch);
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

bool Parser::parse_return() {
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

bool Parser::parse_scope(ScopeKind kind) {
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

bool Parser::parse_scope_ref(ScopeId& scope) {
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

bool Parser::parse_declaration(NodeKind kind) {
  cursor_.skip_spaces();
  if (!cursor_.expect('%')) return false;
  results_.clear();
  if (!parse_result()) return false;
  const NodeId node = add_node(kind);
  return add_results(node) && parse_clauses(node) && cursor_.expect_line_end();
}

bool Parser::parse_scalar_declaration() {
  cursor_.skip_spaces();
  SymbolId name;
  DType dtype{};
  if (!cursor_.expect('$') || !parse_scalar_result(name, dtype)) return false;
  const NodeId node = add_node(NodeKind::kScalar);
  edit_.add_scalar_result(node, name, dtype);
  return parse_clauses(node) && cursor_.expect_line_end();
}

bool Parser::parse_labelled(std::string_view label, const char* at) {
  SymbolId name;
  if (!define(label, at, name)) return false;
  NodeId node;
  if (!parse_call(node)) return false;
  edit_.set_label(node, name);
  return parse_clauses(node) && cursor_.expect_line_end();
}

bool Parser::parse_scalar_operation() {
  SymbolId name;
  DType dtype{};
  cursor_.take('$');
  if (!parse_scalar_result(name, dtype) || !cursor_.expect('=')) return false;
  NodeId node;
  if (!parse_call(node)) return false;
  edit_.add_scalar_result(node, name, dtype);
  return parse_clauses(node) && cursor_.expect_line_end();
}

bool Parser::parse_operation() {
  results_.clear();
  do {
    cursor_.skip_spaces();
    if (!cursor_.expect('%') || !parse_result()) return false;
    cursor_.skip_spaces();
  } while (cursor_.take(','));
  if (!cursor_.expect('=')) return false;
  NodeId node;
  return parse_call(node) && add_results(node) && parse_clauses(node) && cursor_.expect_line_end();
}

// After the '%': NAME ':' type ['~' %x ['+' bytes]].
bool Parser::parse_result() {
  ResultLine result;
  if (!take_name_token(result.name, "the tensor's name")) return false;
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

bool Parser::parse_scalar_result(SymbolId& symbol, DType& dtype) {
  const char* at = cursor_.position();
  std::string_view name;
  if (!cursor_.take_name(name, "the scalar's name") || !define(name, at, symbol)) return false;
  cursor_.skip_spaces();
  if (!cursor_.expect(':')) return false;
  cursor_.skip_spaces();
  const char* type_at = cursor_.position();
  if (!parse_dtype(cursor_, dtype)) return false;
  if (!is_scalar_dtype(dtype)) {
    return cursor_.error_at(type_at, "P11",
                            fmt::format("a scalar is f64, i64 or bool, not {}", ebb::name(dtype)));
  }
  cursor_.skip_spaces();
  return true;
}

NodeId Parser::add_node(NodeKind kind, std::string_view op) {
  parsed_.lines.push_back(line_);
  return edit_.add_node(kind, op);
}

bool Parser::add_results(NodeId node) {
  for (const ResultLine& result : results_) {
    const SymbolId name = edit_.intern(result.name.text, result.name.hash);
    if (edit_.is_taken(name)) return defined_twice(result.name.text, result.name.at);
    if (result.shares.valid()) {
      edit_.add_shared_result(node, name, result.type, result.shares, result.offset);
    } else {
      edit_.add_result(node, name, result.type);
    }
  }
  return true;
}

bool Parser::define(std::string_view name, const char* at, SymbolId& symbol) {
  symbol = edit_.intern(name);
  return !edit_.is_taken(symbol) || defined_twice(name, at);
}

bool Parser::defined_twice(std::string_view name, const char* at) {
  const NodeId node = graph().find_node(name);
  const NodeId first = node.valid() ? node : graph().producer(graph().find_tensor(name));
  return cursor_.error_at(at, "P09",
                          fmt::format("'{}' is defined already on line {}; names are unique, "
                                      "whatever their sigil",
                                      name, parsed_.lines[first.index()]));
}

// A name whose text stays valid while the line is read.
bool Parser::take_name_token(NameToken& token, std::string_view what) {
  token.at = cursor_.position();
  if (!cursor_.take_name(token.text, what)) return false;
  if (!cursor_.is_in_text(token.text)) token.text = unescaped_names_.emplace_back(token.text);
  token.hash = hash_bytes(token.text);
  edit_.prefetch(token.hash);
  return true;
}

// An unknown name is remembered: it may be defined by a later line.
TensorId Parser::look_up(NodeId user, const NameToken& name) {
  const TensorId tensor = edit_.find_tensor(name.text, name.hash);
  if (!tensor.valid()) {
    references_.note(user, References::Kind::kTensor, name.text, name.at, cursor_);
  }
  return tensor;
}

// After the '%'.
bool Parser::parse_tensor_ref(NodeId user, TensorId& tensor) {
  NameToken name;
  if (!take_name_token(name, "a tensor's name")) return false;
  tensor = look_up(user, name);
  return true;
}

bool Parser::parse_node_ref(NodeId user, NodeId& node) {
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

// A clone does not wait for its original, which may therefore stand below it.
void Parser::settle_clones() {
  for (const CloneClause& clone : clones_) {
    const NodeId original = graph().find_node(clone.original);
    edit_.set_clone_of(clone.node, original);
    if (!original.valid()) {
      references_.note(clone.node, References::Kind::kNode, clone.original, clone.at, cursor_);
    }
  }
}

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

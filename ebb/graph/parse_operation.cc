// Operations: the call and its attributes.
#include <utility>

#include <fmt/format.h>

#include "ebb/graph/parse_literal.h"
#include "ebb/graph/parser.h"
#include "ebb/graph/scalar_op.h"

namespace ebb {

bool Parser::parse_call(NodeId& node) {
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

bool Parser::parse_operands(NodeId node) {
  using Position = Operand::Position;
  operands_.clear();
  operand_names_.clear();
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
    NameToken name;
    if (!empty_list && !parse_operand(operand, name)) return false;
    operand.position = position;
    operands_.push_back(operand);
    operand_names_.push_back(name);
    cursor_.skip_spaces();
    bool in_list = position == Position::kListFirst || position == Position::kListNext;
    if (in_list && cursor_.take(']')) {
      in_list = false;
      cursor_.skip_spaces();
    }
    position = in_list ? Position::kListNext : Position::kAlone;
    if (cursor_.take(',')) continue;
    if (!in_list && cursor_.take(')')) break;
    return cursor_.error(
        "P04", fmt::format("expected ',' or '{}', found {}", in_list ? ']' : ')', cursor_.here()));
  }
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (operand_names_[i].at != nullptr) operands_[i].tensor = look_up(node, operand_names_[i]);
  }
  edit_.set_operands(node, operands_);
  return true;
}

bool Parser::parse_operand(Operand& operand, NameToken& name) {
  if (cursor_.take('%')) {
    if (!take_name_token(name, "a tensor's name")) return false;
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
bool Parser::parse_value_list(NodeId node, char close) {
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

bool Parser::parse_value(NodeId node) {
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

bool Parser::parse_attributes(NodeId node) {
  cursor_.skip_spaces();
  if (cursor_.take('}')) return true;
  while (true) {
    cursor_.skip_spaces();
    const char* at = cursor_.position();
    std::string_view name;
    if (!cursor_.take_name(name, "an attribute's name")) return false;
    const SymbolId key = edit_.intern(name);
    if (key.index() >= key_users_.size()) key_users_.resize(key.index() + 1);
    if (std::exchange(key_users_[key.index()], node) == node) {
      return cursor_.error_at(at, "P19",
                              fmt::format("attribute '{}' is given twice", graph().text(key)));
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

}  // namespace ebb

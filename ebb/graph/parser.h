// The reader of the text form. Lines, operations and clauses have a source file each
// (parse.cc, parse_operation.cc, parse_clauses.cc); parse.h is the way in.
//
// Functions return whether they understood what stands at the cursor; if not, the cursor has the
// error, and everybody returns at once.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/graph/edit.h"
#include "ebb/graph/parse.h"
#include "ebb/graph/references.h"
#include "ebb/graph/text_cursor.h"

namespace ebb {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), cursor_(text), edit_(parsed_.graph) {}
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;
  ~Parser() = default;

  Result<ParsedGraph> run();

 private:
  // A name as it stands in the text. Names of a line are looked up together at its end: asking for
  // all of them before the first is needed hides most of the time that memory takes on large
  // graphs.
  struct NameToken {
    std::string_view text;
    std::uint64_t hash = 0;
    const char* at = nullptr;
  };

  struct ResultLine {  // one result, left of '='
    NameToken name;
    TypeId type;
    TensorId shares;  // with whom it shares bytes; not valid: with nobody
    Bytes offset;
  };

  struct CloneClause {
    NodeId node;
    std::string original;
    const char* at = nullptr;
  };

  Graph& graph() { return parsed_.graph; }

  // Lines.
  bool parse_file();
  bool parse_line(bool& returned);
  bool parse_word_line(bool& returned);
  bool parse_return();
  bool parse_scope(ScopeKind kind);
  bool parse_scope_ref(ScopeId& scope);
  bool parse_declaration(NodeKind kind);
  bool parse_scalar_declaration();
  bool parse_labelled(std::string_view label, const char* at);
  bool parse_scalar_operation();
  bool parse_operation();
  bool parse_result();
  bool parse_scalar_result(SymbolId& symbol, DType& dtype);

  // Names.
  bool define(std::string_view name, const char* at, SymbolId& symbol);
  bool defined_twice(std::string_view name, const char* at);
  bool take_name_token(NameToken& token, std::string_view what);
  TensorId look_up(NodeId user, const NameToken& name);
  bool parse_tensor_ref(NodeId user, TensorId& tensor);
  bool parse_node_ref(NodeId user, NodeId& node);
  void settle_clones();

  // What a line adds to the graph.
  NodeId add_node(NodeKind kind, std::string_view op = {});
  bool add_results(NodeId node);

  // Operations: the call and its attributes.
  bool parse_call(NodeId& node);
  bool parse_operands(NodeId node);
  bool parse_operand(Operand& operand, NameToken& name);
  bool parse_value_list(NodeId node, char close);
  bool parse_value(NodeId node);
  bool parse_attributes(NodeId node);

  // Clauses: what may follow a declaration or a call.
  bool parse_clauses(NodeId node);
  bool unknown_clause(const char* at, std::string_view word);
  bool parse_device(NodeId node);
  bool parse_after(NodeId node);
  bool parse_clone(NodeId node);
  bool parse_bytes_at(Bytes& bytes);
  bool parse_workspace(NodeId node);
  bool parse_takes(NodeId node);

  std::string_view text_;
  TextCursor cursor_;
  ParsedGraph parsed_;
  GraphEdit edit_;
  int line_ = 0;

  // Scratch, kept to save allocations.
  TensorType type_;
  std::vector<ResultLine> results_;
  std::vector<Operand> operands_;
  std::vector<NameToken> operand_names_;     // beside them; empty where there is no tensor
  std::deque<std::string> unescaped_names_;  // of this line, where they had escapes
  std::vector<NodeId> controls_;
  std::vector<Value> values_;
  std::vector<NodeId> key_users_;  // by symbol: the last node with this attribute

  References references_;
  std::vector<CloneClause> clones_;
};

}  // namespace ebb

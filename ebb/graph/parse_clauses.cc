// Clauses: what may follow a declaration or a call.
#include <fmt/format.h>

#include "ebb/base/nearest.h"
#include "ebb/graph/parser.h"

namespace ebb {

// What may follow a declaration or a call, in any order, each at most once.
bool Parser::parse_clauses(NodeId node) {
  enum Clause : unsigned { kAttributes, kEffect, kClone, kScope, kDevice, kAfter, kTakes, kSpace };
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

bool Parser::unknown_clause(const char* at, std::string_view word) {
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

bool Parser::parse_device(NodeId node) {
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

bool Parser::parse_after(NodeId node) {
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

bool Parser::parse_clone(NodeId node) {
  cursor_.skip_spaces();
  if (!cursor_.take_word("of")) {
    return cursor_.error("P04", fmt::format("expected 'clone of NODE', found {}", cursor_.here()));
  }
  cursor_.skip_spaces();
  const char* at = cursor_.position();
  std::string_view name;
  if (!cursor_.take_name(name, "a node's name")) return false;
  clones_.push_back({node, std::string(name), at});
  return true;
}

bool Parser::parse_bytes_at(Bytes& bytes) {
  cursor_.skip_spaces();
  const char* at = cursor_.position();
  const auto parsed = parse_bytes(cursor_.take_number_chars());
  if (!parsed) return cursor_.error_at(at, "P21", parsed.error().message);
  bytes = *parsed;
  return true;
}

bool Parser::parse_workspace(NodeId node) {
  Bytes bytes;
  if (!parse_bytes_at(bytes)) return false;
  edit_.set_workspace(node, bytes);
  return true;
}

bool Parser::parse_takes(NodeId node) {
  cursor_.skip_spaces();
  const char* at = cursor_.position();
  const auto parsed = parse_duration(cursor_.take_number_chars());
  if (!parsed) return cursor_.error_at(at, "P21", parsed.error().message);
  edit_.set_takes(node, *parsed);
  return true;
}

}  // namespace ebb

// The text of decisions. Names stand where nothing else may, so that none of them needs quotes for
// being a word of the language.
#include "ebb/rewrite/decision.h"

#include <fmt/format.h>

#include "ebb/base/nearest.h"
#include "ebb/graph/text_cursor.h"
#include "ebb/graph/text_names.h"

namespace ebb {
namespace {

void append_groups(std::string& out, const Graph& graph, const std::vector<ReaderGroup>& groups) {
  for (const ReaderGroup& group : groups) {
    const char* between = " for ";
    for (const NodeId reader : group.readers) {
      out += between;
      append_name(out, graph.name(reader));
      between = ", ";
    }
    out += " after ";
    append_name(out, graph.name(group.trigger));
  }
}

struct Writer {
  const Graph& graph;

  std::string operator()(const SwapDecision& decision) const {
    std::string out = "swap %";
    append_name(out, graph.name(decision.tensor));
    append_groups(out, graph, decision.groups);
    if (!decision.codec.empty()) {
      out += " as ";
      append_name(out, decision.codec);
      if (decision.codec_side == CodecSide::kHost) out += " on host";
    }
    return out;
  }
  std::string operator()(const RecomputeDecision& decision) const {
    std::string out = "recompute %";
    append_name(out, graph.name(decision.tensor));
    append_groups(out, graph, decision.groups);
    return out;
  }
  std::string operator()(const DelayDecision& decision) const {
    std::string out = "delay ";
    append_name(out, graph.name(decision.node));
    out += " after ";
    append_name(out, graph.name(decision.after));
    return out;
  }
  std::string operator()(const MoveDecision& decision) const {
    std::string out = "move ";
    append_name(out, graph.name(decision.node));
    out += " below ";
    append_name(out, graph.name(decision.below));
    return out;
  }
  std::string operator()(const SplitDecision& decision) const {
    std::string out = "split ";
    append_name(out, graph.name(decision.node));
    return out;
  }
};

class Reader {
 public:
  Reader(const Graph& graph, std::string_view text) : graph_(graph), cursor_(text) {}

  Result<Decision> run() {
    Decision decision;
    if (!parse(decision)) return fail(cursor_.take_error());
    return decision;
  }

 private:
  bool parse(Decision& decision) {
    cursor_.skip_spaces();
    if (cursor_.take_word("swap")) {
      SwapDecision swap;
      if (!parse_tensor(swap.tensor) || !parse_groups(swap.groups)) return false;
      if (take_keyword("as")) {
        std::string_view codec;
        cursor_.skip_spaces();
        if (!cursor_.take_name(codec, "the name of a codec")) return false;
        swap.codec = codec;
        if (take_keyword("on")) {
          if (!expect_keyword("host")) return false;
          swap.codec_side = CodecSide::kHost;
        }
      }
      decision = std::move(swap);
    } else if (cursor_.take_word("recompute")) {
      RecomputeDecision recompute;
      if (!parse_tensor(recompute.tensor) || !parse_groups(recompute.groups)) return false;
      decision = std::move(recompute);
    } else if (cursor_.take_word("delay")) {
      DelayDecision delay;
      if (!parse_node(delay.node) || !expect_keyword("after") || !parse_node(delay.after)) {
        return false;
      }
      decision = delay;
    } else if (cursor_.take_word("move")) {
      MoveDecision move;
      if (!parse_node(move.node) || !expect_keyword("below") || !parse_node(move.below)) {
        return false;
      }
      decision = move;
    } else if (cursor_.take_word("split")) {
      SplitDecision split;
      if (!parse_node(split.node)) return false;
      decision = split;
    } else {
      return cursor_.error(
          "P04", fmt::format("expected 'swap', 'recompute', 'delay', 'move' or 'split', found {}",
                             cursor_.here()));
    }
    cursor_.skip_spaces();
    return cursor_.at_line_end() ||
           cursor_.error("P04",
                         fmt::format("expected the end of the line, found {}", cursor_.here()));
  }

  bool take_keyword(std::string_view word) {
    cursor_.skip_spaces();
    return cursor_.take_word(word);
  }
  bool expect_keyword(std::string_view word) {
    return take_keyword(word) ||
           cursor_.error("P04", fmt::format("expected '{}', found {}", word, cursor_.here()));
  }

  bool parse_groups(std::vector<ReaderGroup>& groups) {
    if (!expect_keyword("for")) return false;
    do {
      ReaderGroup& group = groups.emplace_back();
      do {
        if (!parse_node(group.readers.emplace_back())) return false;
        cursor_.skip_spaces();
      } while (cursor_.take(','));
      if (!expect_keyword("after") || !parse_node(group.trigger)) return false;
    } while (take_keyword("for"));
    return true;
  }

  bool parse_tensor(TensorId& tensor) {
    cursor_.skip_spaces();
    const char* at = cursor_.position();
    if (!cursor_.take('%')) {
      return cursor_.error("P04",
                           fmt::format("expected a tensor, as %a, found {}", cursor_.here()));
    }
    std::string_view name;
    if (!cursor_.take_name(name, "a tensor's name")) return false;
    tensor = graph_.find_tensor(name);
    return tensor.valid() || cursor_.error_at(at, "P24", why_no_tensor(name));
  }

  bool parse_node(NodeId& node) {
    cursor_.skip_spaces();
    const char* at = cursor_.position();
    if (cursor_.peek() == '%') {
      return cursor_.error("P16", "an operation is named without '%'");
    }
    std::string_view name;
    if (!cursor_.take_name(name, "an operation's name")) return false;
    node = graph_.find_node(name);
    return node.valid() || cursor_.error_at(at, "P24", why_no_node(name));
  }

  [[nodiscard]] std::string why_no_tensor(std::string_view name) const {
    if (graph_.find_scalar(name).valid())
      return fmt::format("'{}' is a scalar, not a tensor", name);
    if (graph_.find_node(name).valid()) {
      return fmt::format("'{}' is an operation without results", name);
    }
    NearestWord nearest(name);
    for (const TensorId tensor : graph_.tensors()) nearest.offer(graph_.name(tensor));
    return fmt::format("there is no tensor '{}' in this graph{}", name, nearest.hint());
  }
  [[nodiscard]] std::string why_no_node(std::string_view name) const {
    if (const TensorId tensor = graph_.find_tensor(name); tensor.valid()) {
      return fmt::format("'{}' is a further result; its node is named '{}'", name,
                         graph_.name(graph_.producer(tensor)));
    }
    NearestWord nearest(name);
    for (const NodeId node : graph_.nodes()) nearest.offer(graph_.name(node));
    return fmt::format("there is no node '{}' in this graph{}", name, nearest.hint());
  }

  const Graph& graph_;
  TextCursor cursor_;
};

}  // namespace

std::string to_text(const Graph& graph, const Decision& decision) {
  return std::visit(Writer{graph}, decision);
}

Result<Decision> parse_decision(const Graph& graph, std::string_view text) {
  return Reader(graph, text).run();
}

}  // namespace ebb

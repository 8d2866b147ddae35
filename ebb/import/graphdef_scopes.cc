#include "ebb/import/graphdef_scopes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <protozero/exception.hpp>

#include "ebb/base/utf8.h"
#include "ebb/import/graphdef_attributes.h"

namespace ebb {
namespace {

// What is looked at in a chain of contexts is linear in its length.
constexpr std::uint32_t kMostConditions = 1000;
constexpr std::uint32_t kNoFrame = 0;
constexpr int kMostRounds = 50;

bool is_one_of(std::string_view op, std::string_view name) {
  return op == name || (op.starts_with("Ref") && op.substr(3) == name);
}
bool is_switch(std::string_view op) { return is_one_of(op, "Switch") || op == "_SwitchN"; }

tl::unexpected<Error> refuse(const NodeDefView& node, std::string_view what) {
  return fail(Error{.kind = ErrorKind::kBadInput,
                    .code = "G06",
                    .message = fmt::format("node '{}' {}", printable(node.name), what),
                    .place = {}});
}

// Contexts are a tree: in each frame its whole, in that the sides of conditionals, and so on. A
// node runs in the innermost context of what it reads, a Merge where one of its inputs always
// arrives.
class Scopes {
 public:
  Scopes(const GraphDefView& graphdef, const Wiring& wiring)
      : graphdef_(graphdef), wiring_(wiring), context_(graphdef.nodes.size()) {
    frames_.push_back({.name = {}, .context = add_context(kNoFrame, 0, 0)});
  }

  Status run() {
    find_values();
    // Who leaves a loop may stand above another who enters it, and then where the loop runs is
    // known too late: once more, with what is known.
    for (int round = 0; round < kMostRounds; ++round) {
      bool is_done = true;
      for (const std::uint32_t node : wiring_.order) {
        if (auto ok = place(node); !ok) return ok;
      }
      for (Frame& frame : frames_) {
        is_done = is_done && frame.parent == frame.parent_seen;
        frame.parent_seen = frame.parent;
      }
      if (is_done) return check_back_edges();
    }
    return fail(Error{.kind = ErrorKind::kBadInput,
                      .code = "G06",
                      .message = "what enters loops depends on what leaves others, too many times",
                      .place = {}});
  }

  // The scope of each node, made in the graph.
  std::vector<ScopeId> make(GraphEdit& edit) {
    scopes_.resize(contexts_.size());
    is_made_.resize(contexts_.size());
    is_made_[frames_[kNoFrame].context] = true;
    std::vector<ScopeId> of_nodes;
    of_nodes.reserve(context_.size());
    for (const std::uint32_t context : context_) of_nodes.push_back(make_scope(edit, context));
    return of_nodes;
  }

 private:
  // A tensor that decides, and which of its values.
  struct Condition {
    std::uint32_t node = 0;
    std::uint32_t result = 0;
    std::uint32_t side = 0;
    std::uint32_t sides = 0;  // how many there are; 0: nobody else has this condition
    friend auto operator<=>(const Condition&, const Condition&) = default;
  };
  using Decision = std::pair<std::uint32_t, std::uint32_t>;  // node and result
  struct Context {
    std::uint32_t frame = kNoFrame;
    std::uint32_t parent = 0;     // in the frame
    std::uint32_t condition = 0;  // which of those
    std::uint32_t depth = 0;      // 0: all of the frame
  };
  struct Frame {
    std::string name;
    std::uint32_t context = 0;
    std::uint32_t parent = 0;       // the context of all who enter
    std::uint32_t parent_seen = 0;  // in the round before
  };

  std::uint32_t add_context(std::uint32_t frame, std::uint32_t parent, std::uint32_t condition) {
    const std::uint32_t depth = condition == 0 ? 0 : depth_of(parent) + 1;
    contexts_.push_back({frame, parent, condition, depth});
    return static_cast<std::uint32_t>(contexts_.size() - 1);
  }
  [[nodiscard]] std::uint32_t depth_of(std::uint32_t context) const {
    return contexts_[context].depth;
  }

  // The context below it in which the condition holds.
  std::uint32_t under(std::uint32_t context, const Condition& condition) {
    const auto [found, is_new] = condition_numbers_.try_emplace(
        condition, static_cast<std::uint32_t>(conditions_.size() + 1));
    if (is_new) conditions_.push_back(condition);
    return under(context, found->second);
  }
  std::uint32_t under(std::uint32_t context, std::uint32_t condition) {
    for (std::uint32_t at = context; depth_of(at) > 0; at = contexts_[at].parent) {
      if (contexts_[at].condition == condition) return context;
    }
    const auto [found, is_new] = inside_.try_emplace(std::pair(context, condition), 0);
    if (is_new) found->second = add_context(contexts_[context].frame, context, condition);
    return found->second;
  }

  // What Identity and Switch hand on is the same decision.
  void find_values() {
    value_.resize(graphdef_.nodes.size());
    for (const std::uint32_t node : wiring_.order) {
      const auto inputs = wiring_.inputs(node);
      const std::string_view op = graphdef_.nodes[node].op;
      const bool hands_on = (op == "Identity" || is_switch(op)) && !inputs.empty() &&
                            !inputs[0].is_control && !inputs[0].closes_loop;
      if (hands_on) value_[node] = value_of(inputs[0]);
    }
  }
  [[nodiscard]] Decision value_of(const Wire& wire) const {
    return value_[wire.node].value_or(Decision(wire.node, wire.result));
  }

  // The context of what a wire brings.
  std::uint32_t context_of(const Wire& wire) {
    const NodeDefView& maker = graphdef_.nodes[wire.node];
    if (is_one_of(maker.op, "Enter")) return frames_[frame_entered_.at(wire.node)].context;
    if (wire.is_control || !is_switch(maker.op)) return context_[wire.node];
    Condition condition{.node = wire.node, .result = 0, .side = wire.result, .sides = 2};
    if (maker.op == "_SwitchN") {
      const auto sides = maker.attribute("num_outs");
      condition.sides = static_cast<std::uint32_t>(
          std::clamp<std::int64_t>(sides ? int_of_attr_value(*sides).value_or(0) : 0, 0, 1 << 20));
    }
    const auto inputs = wiring_.inputs(wire.node);
    if (inputs.size() > 1 && !inputs[1].is_control) {
      std::tie(condition.node, condition.result) = value_of(inputs[1]);
    }
    return under(context_[wire.node], condition);
  }

  // The deepest that both are in.
  [[nodiscard]] std::uint32_t common(std::uint32_t a, std::uint32_t b) const {
    while (a != b) {
      std::uint32_t& deeper = depth_of(a) > depth_of(b) ? a : b;
      deeper = contexts_[deeper].parent;
    }
    return a;
  }

  // Where all conditions of both hold.
  std::uint32_t both(std::uint32_t a, std::uint32_t b) {
    const std::uint32_t shared = common(a, b);
    if (shared == a) return b;
    if (shared == b) return a;
    std::vector<std::uint32_t> more;
    for (std::uint32_t at = b; at != shared; at = contexts_[at].parent) {
      more.push_back(contexts_[at].condition);
    }
    std::reverse(more.begin(), more.end());
    for (const std::uint32_t condition : more) a = under(a, condition);
    return a;
  }

  // Where one of the inputs arrives, whatever was decided: in the context around a conditional all
  // of whose sides come in. If some decision leaves it without an input, it has a condition of its
  // own.
  std::uint32_t merge(std::uint32_t node, std::span<const std::uint32_t> inputs) {
    std::uint32_t shared = inputs.front();
    for (const std::uint32_t each : inputs) shared = common(shared, each);
    std::set<std::uint32_t> sides;
    Condition first;
    for (const std::uint32_t each : inputs) {
      if (each == shared) return shared;
      const Condition& condition = conditions_[contexts_[each].condition - 1];
      if (sides.empty()) first = condition;
      if (contexts_[each].parent == shared && condition.node == first.node &&
          condition.result == first.result && condition.sides == first.sides) {
        sides.insert(condition.side);
      }
    }
    if (first.sides > 0 && sides.size() == first.sides) return shared;
    return under(shared, Condition{.node = node, .result = 0, .side = 0, .sides = 0});
  }

  Status place(std::uint32_t node) {
    try {
      return place_well(node);
    } catch (const protozero::exception&) {
      return refuse(graphdef_.nodes[node], "has a damaged attribute");
    }
  }

  Status place_well(std::uint32_t node) {
    const NodeDefView& def = graphdef_.nodes[node];
    const bool merges = is_one_of(def.op, "Merge");
    std::uint32_t here = frames_[kNoFrame].context;
    bool is_first = true;
    merged_.clear();
    for (const Wire& wire : wiring_.inputs(node)) {
      if (wire.closes_loop) continue;
      const std::uint32_t from = context_of(wire);
      if (!is_first && contexts_[from].frame != contexts_[here].frame) {
        return refuse(
            def, fmt::format("reads from {} and from {}; values go into a loop by Enter "
                             "and leave it by Exit",
                             describe(contexts_[here].frame), describe(contexts_[from].frame)));
      }
      if (!merges && def.op != "ControlTrigger") {
        here = is_first ? from : both(here, from);
      } else {
        // It runs although those that it only waits for do not.
        if (!wire.is_control) merged_.push_back(from);
        here = is_first ? from : common(here, from);
      }
      is_first = false;
    }
    if (!merged_.empty()) here = merge(node, merged_);
    if (depth_of(here) > kMostConditions) {
      return refuse(def, fmt::format("is in more than {} conditionals", kMostConditions));
    }
    const std::uint32_t frame = contexts_[here].frame;
    if (is_one_of(def.op, "Exit")) {
      if (frame == kNoFrame) return refuse(def, "leaves a loop and is in none");
      here = frames_[frame].parent;
    } else if (is_one_of(def.op, "NextIteration") && frame == kNoFrame) {
      return refuse(def, "goes to the next round of a loop and is in none");
    } else if (is_one_of(def.op, "Enter")) {
      enter(node, def, here);
    }
    context_[node] = here;
    return {};
  }

  void enter(std::uint32_t node, const NodeDefView& def, std::uint32_t from) {
    std::string name;
    if (const auto attribute = def.attribute("frame_name")) {
      name = text_of_attr_value(*attribute).value_or("");
    }
    const auto [found, is_new] =
        frame_numbers_.try_emplace(std::pair(contexts_[from].frame, std::move(name)),
                                   static_cast<std::uint32_t>(frames_.size()));
    const std::uint32_t number = found->second;
    if (is_new) {
      frames_.push_back({.name = found->first.second,
                         .context = add_context(number, 0, 0),
                         .parent = from,
                         .parent_seen = from});
    } else {
      // It runs where all that enters it does.
      frames_[number].parent = both(frames_[number].parent, from);
    }
    frame_entered_[node] = number;
  }

  Status check_back_edges() {
    for (std::uint32_t node = 0; node < graphdef_.nodes.size(); ++node) {
      for (const Wire& wire : wiring_.inputs(node)) {
        const std::uint32_t frame = contexts_[context_[node]].frame;
        const std::uint32_t from = contexts_[context_[wire.node]].frame;
        if (!wire.closes_loop || frame == from) continue;
        return refuse(
            graphdef_.nodes[node],
            fmt::format("reads from {} and, a round later, from {} ('{}')", describe(frame),
                        describe(from), printable(graphdef_.nodes[wire.node].name)));
      }
    }
    return {};
  }

  [[nodiscard]] std::string describe(std::uint32_t frame) const {
    if (frame == kNoFrame) return "outside every loop";
    return fmt::format("the loop '{}'", printable(frames_[frame].name));
  }

  [[nodiscard]] std::uint32_t around(std::uint32_t context) const {
    const Context& inner = contexts_[context];
    return inner.depth == 0 ? frames_[inner.frame].parent : inner.parent;
  }

  ScopeId make_scope(GraphEdit& edit, std::uint32_t context) {
    std::vector<std::uint32_t> missing;
    std::uint32_t at = context;
    for (; !is_made_[at]; at = around(at)) missing.push_back(at);
    std::reverse(missing.begin(), missing.end());
    for (const std::uint32_t each : missing) {
      const Context& inner = contexts_[each];
      const bool is_frame = inner.depth == 0;
      const std::string name =
          is_frame ? frames_[inner.frame].name : name_of(conditions_[inner.condition - 1]);
      scopes_[each] = edit.add_scope(is_frame ? ScopeKind::kFrame : ScopeKind::kBranch,
                                     unused_name(edit, name), scopes_[around(each)]);
      is_made_[each] = true;
    }
    return scopes_[context];
  }

  [[nodiscard]] std::string name_of(const Condition& condition) const {
    std::string value = input_text(graphdef_.nodes[condition.node].name, condition.result);
    switch (condition.sides) {
      case 0:
        return value;
      case 2:
        return fmt::format("{}={}", value, condition.side == 0 ? "false" : "true");
      default:
        return fmt::format("{}={}", value, condition.side);
    }
  }

  SymbolId unused_name(GraphEdit& edit, const std::string& wanted) {
    for (int& count = names_used_[wanted];;) {
      std::string name = ++count == 1 ? wanted : fmt::format("{}#{}", wanted, count);
      if (is_utf8(name) && !name.empty() && taken_.insert(name).second) return edit.intern(name);
      if (count == 1 && (wanted.empty() || !is_utf8(wanted))) return unused_name(edit, "loop");
    }
  }

  const GraphDefView& graphdef_;
  const Wiring& wiring_;
  std::vector<std::uint32_t> context_;          // by node
  std::vector<std::optional<Decision>> value_;  // by node that hands on what somebody else made
  std::vector<Context> contexts_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> inside_;
  std::vector<Condition> conditions_;  // the first has number 1
  std::map<Condition, std::uint32_t> condition_numbers_;
  std::vector<Frame> frames_;
  std::map<std::pair<std::uint32_t, std::string>, std::uint32_t> frame_numbers_;
  std::map<std::uint32_t, std::uint32_t> frame_entered_;  // by Enter
  std::vector<std::uint32_t> merged_;
  std::vector<ScopeId> scopes_;  // by context
  std::vector<bool> is_made_;
  std::map<std::string, int> names_used_;
  std::set<std::string> taken_;
};

}  // namespace

Result<std::vector<ScopeId>> find_scopes(const GraphDefView& graphdef, const Wiring& wiring,
                                         GraphEdit& edit) {
  Scopes scopes(graphdef, wiring);
  if (auto ok = scopes.run(); !ok) return fail(ok.error());
  return scopes.make(edit);
}

}  // namespace ebb

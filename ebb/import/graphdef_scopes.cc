#include "ebb/import/graphdef_scopes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "ebb/import/graphdef_attributes.h"

namespace ebb {
namespace {

using Conditions = std::vector<std::uint32_t>;  // sorted
constexpr std::uint32_t kNoFrame = 0;

bool is_any_of(std::string_view op, std::string_view name) {
  return op == name || (op.starts_with("Ref") && op.substr(3) == name);
}

class Scopes {
 public:
  Scopes(const GraphDefView& graphdef, const Wiring& wiring)
      : graphdef_(graphdef), wiring_(wiring), context_(graphdef.nodes.size()) {
    frames_.push_back({});
    find_context({kNoFrame, {}});
  }

  Status run() {
    for (const std::uint32_t node : wiring_.order) {
      if (auto ok = place(node); !ok) return ok;
    }
    return {};
  }

  // The scope of each node, made in the graph.
  std::vector<ScopeId> make(GraphEdit& edit) {
    std::vector<ScopeId> of_context(contexts_.size());
    std::vector<bool> is_made(contexts_.size());
    std::vector<ScopeId> scopes;
    scopes.reserve(context_.size());
    for (const std::uint32_t context : context_) {
      if (!is_made[context]) {
        of_context[context] = make_scope(edit, *contexts_[context]);
        is_made[context] = true;
      }
      scopes.push_back(of_context[context]);
    }
    return scopes;
  }

 private:
  struct Context {
    std::uint32_t frame = kNoFrame;
    Conditions conditions;
    friend auto operator<=>(const Context&, const Context&) = default;
  };
  struct Frame {
    std::string name;
    std::uint32_t parent = 0;  // the context of those who enter
  };

  std::uint32_t find_context(Context context) {
    const auto [found, is_new] = context_numbers_.try_emplace(
        std::move(context), static_cast<std::uint32_t>(contexts_.size()));
    if (is_new) contexts_.push_back(&found->first);
    return found->second;
  }

  // The context of what a wire brings.
  std::uint32_t context_of(const Wire& wire) {
    const NodeDefView& maker = graphdef_.nodes[wire.node];
    const std::uint32_t own = context_[wire.node];
    if (is_any_of(maker.op, "Enter")) return find_context({frame_entered_[wire.node], {}});
    if (wire.is_control || !is_any_of(maker.op, "Switch")) return own;
    Context inside = *contexts_[own];
    const std::uint32_t condition = find_condition(wire.node, wire.result);
    const auto at = std::lower_bound(inside.conditions.begin(), inside.conditions.end(), condition);
    if (at == inside.conditions.end() || *at != condition) inside.conditions.insert(at, condition);
    return find_context(std::move(inside));
  }

  std::uint32_t find_condition(std::uint32_t switch_node, std::uint32_t side) {
    std::pair<std::uint32_t, std::uint32_t> predicate{switch_node, 0};
    const auto inputs = wiring_.inputs(switch_node);
    if (inputs.size() > 1) predicate = {inputs[1].node, inputs[1].result};
    while (graphdef_.nodes[predicate.first].op == "Identity" &&
           !wiring_.inputs(predicate.first).empty()) {
      const Wire& through = wiring_.inputs(predicate.first).front();
      if (through.is_control || graphdef_.nodes[through.node].op == "Switch") break;
      predicate = {through.node, through.result};
    }
    const auto [found, is_new] =
        condition_numbers_.try_emplace(std::tuple(predicate.first, predicate.second, side),
                                       static_cast<std::uint32_t>(condition_names_.size()));
    if (is_new) {
      condition_names_.push_back(
          fmt::format("{}={}", input_text(graphdef_.nodes[predicate.first].name, predicate.second),
                      side == 0 ? "false" : "true"));
    }
    return found->second;
  }

  Status place(std::uint32_t node) {
    const NodeDefView& def = graphdef_.nodes[node];
    const bool merges = is_any_of(def.op, "Merge");
    Context here;
    bool is_first = true;
    for (const Wire& wire : wiring_.inputs(node)) {
      if (wire.closes_loop) continue;
      const Context& from = *contexts_[context_of(wire)];
      if (is_first) {
        here = from;
      } else if (from.frame != here.frame) {
        return fail(Error{.kind = ErrorKind::kBadInput,
                          .code = "G06",
                          .message = fmt::format(
                              "node '{}' reads from {} and from {}; values go into a loop by Enter "
                              "and leave it by Exit",
                              printable(def.name), describe(here.frame), describe(from.frame)),
                          .place = {}});
      } else if (!merges) {
        here.conditions = join(here.conditions, from.conditions, /*keeps_common_only=*/false);
      } else if (!wire.is_control) {  // it runs although those it waits for do not
        here.conditions = join(here.conditions, from.conditions, /*keeps_common_only=*/true);
      }
      is_first = false;
    }
    if (is_any_of(def.op, "Exit")) {
      here = here.frame == kNoFrame ? Context() : *contexts_[frames_[here.frame].parent];
    } else if (is_any_of(def.op, "Enter")) {
      enter(node, def, here);
    }
    context_[node] = find_context(std::move(here));
    return {};
  }

  static Conditions join(const Conditions& a, const Conditions& b, bool keeps_common_only) {
    Conditions out;
    if (keeps_common_only) {
      std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
    } else {
      std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
    }
    return out;
  }

  void enter(std::uint32_t node, const NodeDefView& def, const Context& from) {
    std::string name;
    if (const auto attribute = def.attribute("frame_name")) {
      name = text_of_attr_value(*attribute).value_or("");
    }
    const auto [found, is_new] = frame_numbers_.try_emplace(
        std::pair(from.frame, name), static_cast<std::uint32_t>(frames_.size()));
    if (is_new) {
      frames_.push_back({name, find_context(from)});
    } else {
      // It runs where all that enters it does.
      Frame& frame = frames_[found->second];
      Context both = *contexts_[frame.parent];
      both.conditions = join(both.conditions, from.conditions, false);
      frame.parent = find_context(std::move(both));
    }
    frame_entered_[node] = found->second;
  }

  [[nodiscard]] std::string describe(std::uint32_t frame) const {
    if (frame == kNoFrame) return "outside every loop";
    return fmt::format("the loop '{}'", printable(frames_[frame].name));
  }

  ScopeId make_scope(GraphEdit& edit, const Context& context) {
    const auto known = made_.find(context);
    if (known != made_.end()) return known->second;
    ScopeId scope;
    if (!context.conditions.empty()) {
      Context outer = context;
      outer.conditions.pop_back();
      const ScopeId parent = make_scope(edit, outer);
      scope =
          edit.add_scope(ScopeKind::kBranch,
                         unused_name(edit, condition_names_[context.conditions.back()]), parent);
    } else if (context.frame != kNoFrame) {
      const Frame& frame = frames_[context.frame];
      const ScopeId parent = make_scope(edit, *contexts_[frame.parent]);
      scope = edit.add_scope(ScopeKind::kFrame, unused_name(edit, frame.name), parent);
    }
    made_.emplace(context, scope);
    return scope;
  }

  SymbolId unused_name(GraphEdit& edit, const std::string& wanted) {
    const int count = ++names_used_[wanted];
    return edit.intern(count == 1 ? wanted : fmt::format("{}#{}", wanted, count));
  }

  const GraphDefView& graphdef_;
  const Wiring& wiring_;
  std::vector<std::uint32_t> context_;  // by node
  std::map<Context, std::uint32_t> context_numbers_;
  std::vector<const Context*> contexts_;
  std::vector<Frame> frames_;
  std::map<std::pair<std::uint32_t, std::string>, std::uint32_t> frame_numbers_;
  std::map<std::uint32_t, std::uint32_t> frame_entered_;  // by Enter
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t>
      condition_numbers_;
  std::vector<std::string> condition_names_;
  std::map<Context, ScopeId> made_;
  std::map<std::string, int> names_used_;
};

}  // namespace

Result<std::vector<ScopeId>> find_scopes(const GraphDefView& graphdef, const Wiring& wiring,
                                         GraphEdit& edit) {
  Scopes scopes(graphdef, wiring);
  if (auto ok = scopes.run(); !ok) return fail(ok.error());
  return scopes.make(edit);
}

}  // namespace ebb

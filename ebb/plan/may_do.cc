#include "ebb/plan/may_do.h"

#include <algorithm>

#include "ebb/rewrite/rewriter.h"

namespace ebb {
namespace {

constexpr int kMostSteps = 64;

class Asker {
 public:
  Asker(Graph graph, StepModel& model)
      : graph_(std::move(graph)), rewriter_(graph_), model_(model) {}

  Refusals run() {
    refusals_.swap.resize(model_.values.size());
    refusals_.recompute.resize(model_.values.size());
    for (std::uint32_t value = 0; value < model_.values.size(); ++value) {
      StepModel::Value& it = model_.values[value];
      if (it.can_swap) {
        refusals_.swap[value] = ask<SwapDecision>(value);
        if (refusals_.swap[value].empty() && !have_common_trigger(value)) {
          refusals_.swap[value] = "no operation is found that all its readers wait for";
        }
        it.can_swap = refusals_.swap[value].empty();
      }
      if (it.can_recompute) {
        refusals_.recompute[value] = ask<RecomputeDecision>(value);
        it.can_recompute = refusals_.recompute[value].empty();
      }
    }
    return std::move(refusals_);
  }

 private:
  template <class Kind>
  std::string ask(std::uint32_t value) {
    const StepModel::Value& it = model_.values[value];
    std::uint32_t after = it.producer;
    for (const std::uint32_t use : model_.uses_of(value)) {
      const bool is_gap = after != kNone && use > after + 1;
      after = use;
      if (!is_gap) continue;
      std::string why = refusal<Kind>(it, use, model_.operations[use].waits_for);
      if (!why.empty()) why = refusal<Kind>(it, use, it.producer);
      if (!why.empty()) return why;
    }
    return {};
  }

  // Readers of what an operation makes wait for that operation at least. Readers of an input may
  // have nothing in common.
  bool have_common_trigger(std::uint32_t value) const {
    const auto uses = model_.uses_of(value);
    if (model_.values[value].producer != kNone || uses.size() <= 2) return true;
    std::uint32_t trigger = model_.operations[uses[1]].waits_for;
    for (int i = 0; i < kMostSteps && trigger != kNone; ++i) {
      const NodeId node = model_.operations[trigger].node;
      if (std::all_of(uses.begin() + 1, uses.end(), [&](std::uint32_t use) {
            return rewriter_.waits(model_.operations[use].node, node);
          })) {
        return true;
      }
      trigger = model_.operations[trigger].waits_for;
    }
    return false;
  }

  template <class Kind>
  std::string refusal(const StepModel::Value& value, std::uint32_t use, std::uint32_t trigger) {
    if (trigger == kNone) return "nothing that its reader waits for stands above";
    Kind decision;
    decision.tensor = value.tensor;
    decision.groups = {{{model_.operations[use].node}, model_.operations[trigger].node}};
    const Status says = rewriter_.check(decision);
    return says ? std::string() : says.error().message;
  }

  Graph graph_;  // a copy: a rewriter wants one that it may change
  Rewriter rewriter_;
  StepModel& model_;
  Refusals refusals_;
};

}  // namespace

Refusals ask_rules(const Graph& graph, StepModel& model) { return Asker(graph, model).run(); }

}  // namespace ebb

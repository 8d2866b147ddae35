#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "ebb/graph/ebb_ops.h"
#include "ebb/plan/budget.h"
#include "ebb/report/plan_summary.h"
#include "ebb/report/timeline_summary.h"

namespace ebb {
namespace {

constexpr std::size_t kShownResidents = 8;

double ratio(Duration a, Duration b) {
  return b > Duration::zero() ? static_cast<double>(a.count()) / static_cast<double>(b.count()) : 1;
}

double per_cent(Bytes part, Bytes whole) {
  return whole.count > 0 ? 100 * static_cast<double>(part.count) / static_cast<double>(whole.count)
                         : 0;
}

std::string tensors(std::size_t count) {
  return fmt::format("{} tensor{}", count, count == 1 ? "" : "s");
}

}  // namespace

PlanCounts count_moves(const Plan& plan) {
  PlanCounts counts;
  const Graph& graph = plan.graph;
  std::set<NodeId> originals;
  for (const NodeId node : graph.order()) {
    if (graph.op(node) == kSwapOut) {
      ++counts.swapped;
      counts.swapped_bytes += graph.size(graph.storage(graph.results(node)[0])).value_or(Bytes{});
    }
    const NodeId original = graph.clone_of(node);
    if (!original.valid() ||
        graph.root(graph.storage(graph.results(node)[0])) != graph.results(node)[0]) {
      continue;
    }
    ++counts.clones;
    if (!originals.insert(original).second) continue;
    ++counts.recomputed;
    counts.recomputed_bytes +=
        graph.size(graph.storage(graph.results(original)[0])).value_or(Bytes{});
  }
  for (const PlanFile::Line& line : plan.file.decisions) {
    counts.split += line.text.starts_with("split ") ? 1 : 0;
  }
  return counts;
}

std::string to_text(const Planned& planned) {
  const Plan& plan = *planned.plan;
  const PlanCounts counts = count_moves(plan);
  std::string out = fmt::format(
      "memory: {} of the budget of {}, {:.0f} % of the {} without a plan; the largest operation "
      "{}\n",
      to_human(plan.peak()), to_human(planned.budget),
      per_cent(planned.budget, planned.unconstrained), to_human(planned.unconstrained),
      to_human(planned.floor));
  out += fmt::format("step:   {}, {:.2f} times the {} without a plan; {}\n", to_human(plan.step()),
                     ratio(plan.step(), planned.unconstrained_step),
                     to_human(planned.unconstrained_step), stalls_text(plan.timeline));
  out += fmt::format("swapped:  {}, {}, of which the host holds {} at a time\n",
                     tensors(counts.swapped), to_human(counts.swapped_bytes),
                     to_human(plan.arena.host_size));
  out +=
      fmt::format("computed again: {}, {}, by {} operation{}\n", tensors(counts.recomputed),
                  to_human(counts.recomputed_bytes), counts.clones, counts.clones == 1 ? "" : "s");
  if (counts.split > 0) {
    out += fmt::format("split: {} derivative{} of convolutions\n", counts.split,
                       counts.split == 1 ? "" : "s");
  }
  if (plan.held.refused > 0) {
    out += fmt::format("order: {} time{} the executor cannot be made to wait, and may hold more\n",
                       plan.held.refused, plan.held.refused == 1 ? "" : "s");
  }
  return out;
}

std::string to_text(const Sweep& sweep) {
  std::string out = fmt::format("{:>12} {:>6} {:>12} {:>12} {:>6} {:>12} {:>8} {:>10}\n", "budget",
                                "%", "peak", "step", "times", "on host", "swapped", "recomputed");
  for (const SweepPoint& point : sweep.points) {
    out += fmt::format("{:>12} {:>6.0f} ", to_human(point.budget),
                       per_cent(point.budget, sweep.unconstrained));
    if (!point.plan) {
      out += fmt::format("nothing fits; the least found is {}\n", to_human(point.least));
      continue;
    }
    const PlanCounts counts = count_moves(*point.plan);
    out += fmt::format("{:>12} {:>12} {:>6.2f} {:>12} {:>8} {:>10}\n", to_human(point.plan->peak()),
                       to_human(point.plan->step()),
                       ratio(point.plan->step(), sweep.unconstrained_step),
                       to_human(point.plan->arena.host_size), counts.swapped, counts.recomputed);
  }
  return out;
}

std::string say_infeasible(const Planned& planned, const PlanOptions& options,
                           std::optional<Bytes> whole) {
  const Infeasible& it = *planned.infeasible;
  const Bytes all = whole.value_or(planned.unconstrained);
  const std::string asked = fmt::format("no plan fits into {} ({:.0f} %)", to_human(planned.budget),
                                        per_cent(planned.budget, all));
  if (it.host_is_short) {
    return fmt::format("{} with {} on the host; more there would help", asked,
                       to_human(options.host_budget.value_or(Bytes{})));
  }
  return fmt::format("{}; the least budget found is {} ({} %)", asked, to_text(it.least),
                     per_cent_for(it.least, all));
}

std::string explain_infeasible(const Planned& planned, const PlanOptions& options) {
  const Infeasible& it = *planned.infeasible;
  std::string out;
  if (planned.budget < planned.floor) {
    out += fmt::format("The largest operation alone needs {}.\n", to_human(planned.floor));
  }
  out += fmt::format("With {} it needs most at '{}', where there are:\n", to_human(it.least),
                     it.operation);
  Bytes rest;
  for (std::size_t i = 0; i < it.residents.size(); ++i) {
    const Infeasible::Resident& each = it.residents[i];
    if (i < kShownResidents) {
      out += fmt::format("  {:>10}  {}: {}\n", to_human(each.size), each.what, each.why);
    } else {
      rest += each.size;
    }
  }
  if (rest.count > 0) {
    out +=
        fmt::format("  {:>10}  {} more\n", to_human(rest), it.residents.size() - kShownResidents);
  }
  out += "What would help:";
  if (it.host_is_short) out += " a larger host budget;";
  if (!options.may_swap) out += " swapping, which --no-swap forbids;";
  if (!options.may_recompute) out += " computing again, which --no-recompute forbids;";
  if (!options.may_split) out += " splitting calls, which --no-split forbids;";
  if (options.min_bytes > Bytes{4096}) out += " a lower --min-bytes;";
  if (it.least > planned.budget) out += fmt::format(" a budget of {};", to_text(it.least));
  return out + " a smaller batch.\n";
}

}  // namespace ebb

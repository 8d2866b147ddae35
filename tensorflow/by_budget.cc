#include "by_budget.h"

#include <fmt/format.h>

#include "ebb/base/progress.h"
#include "ebb/plan/plan_tensorflow.h"
#include "ebb/report/plan_summary.h"

namespace ebb::grappler {

Result<BudgetRewritten> rewrite_by_budget(std::string_view graphdef,
                                          const BudgetParameters& parameters,
                                          const GraphDefOptions& reading,
                                          const GraphDefExport& writing) {
  const auto device = find_device(parameters.device);
  if (!device) return fail(device.error());
  Profile profile;
  if (!parameters.profile.empty()) {
    auto read = read_profile(parameters.profile);
    if (!read) return fail(read.error());
    profile = *std::move(read);
  }
  const auto graph = import_graphdef(graphdef, reading);
  if (!graph) return fail(graph.error());
  BudgetRewritten result;
  GraphDefRewritten& out = result.rewritten;
  if (was_rewritten(*graph)) {
    out.was_rewritten_before = true;
    return result;
  }
  TensorFlowBudget budget{.budget = parameters.budget, .clock = clock_of(writing.swap_nodes)};
  if (parameters.batch_size > 0) budget.batch_size = parameters.batch_size;
  if (!parameters.host_budget.empty()) {
    const auto host = parse_bytes(parameters.host_budget);
    if (!host) return fail(host.error());
    budget.plan.host_budget = *host;
  }
  if (!parameters.profile.empty()) budget.plan.profile = &profile;
  const std::string what = fmt::format("planning for {}", parameters.budget);
  Progress progress(what);
  budget.plan.progress = [&](std::uint32_t tried, std::uint32_t of, Duration best) {
    progress.update(
        fmt::format("{}: {} of {} tries, the best takes {}", what, tried, of, to_human(best)));
  };
  auto done = plan_for_tensorflow(*graph, *device, budget);
  if (!done) return fail(done.error());
  if (!done->planned.plan) {
    return fail(ErrorKind::kInfeasible,
                fmt::format("{}; with that it needs most at '{}'",
                            say_infeasible(done->planned, budget.plan),
                            printable(done->planned.infeasible->operation)));
  }
  out.report = to_json(done->planned);
  out.summary = to_text(done->planned);
  if (std::string note = unranked_note(*done); !note.empty()) {
    note.pop_back();  // the end of the line
    out.absent.push_back(std::move(note));
  }
  if (!done->planned.plan->file.decisions.empty()) {
    auto bytes = export_graphdef(done->rewritten, writing);
    if (!bytes) return fail(bytes.error());
    out.graphdef = *std::move(bytes);
  }
  result.planned = std::make_shared<const Graph>(std::move(done->graph));
  return result;
}

}  // namespace ebb::grappler

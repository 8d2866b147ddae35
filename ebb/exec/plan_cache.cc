#include "ebb/exec/plan_cache.h"

#include <utility>

#include <fmt/format.h>

#include "ebb/base/hash_index.h"
#include "ebb/plan/restarts.h"
#include "ebb/rewrite/plan_file.h"

namespace ebb::exec {
namespace {

Result<Planned> read_plan(const Graph& graph, const Device& device, const PlanOptions& options,
                          const std::string& text) {
  const auto file = parse_plan(text);
  if (!file) return fail(file.error());
  auto planned = plan_of_file(graph, device, options, *file);
  if (!planned) return planned;
  if (to_text(planned->plan->file) != text) {
    return fail(ErrorKind::kRefused, "it leads to something else than it says");
  }
  return planned;
}

}  // namespace

std::string plan_file_name(const Graph& graph, const Device& device, const PlanOptions& options,
                           int seeds) {
  std::string key = fmt::format(
      "Ebb {}\ngraph {:016x}\nbudget {}\nhost {}\nswap {}\nrecompute {}\nsplit {}\nleast {}\n"
      "search {}\nseed {}\nseeds {}\n",
      EBB_VERSION, fingerprint(graph), options.budget.count,
      options.host_budget ? std::to_string(options.host_budget->count) : "as much as it takes",
      options.may_swap, options.may_recompute, options.may_split, options.min_bytes.count,
      options.evaluations ? std::to_string(*options.evaluations) : "a second", options.seed, seeds);
  key += to_json(device);
  if (options.profile != nullptr) key += to_json(*options.profile);
  return fmt::format("plan-{:016x}.plan", hash_bytes(key));
}

Result<PlannedOnce> plan_once(const Cache& cache, const Graph& graph, const Device& device,
                              const PlanOptions& options, int seeds) {
  PlannedOnce out;
  const std::string name = cache.is_on() ? plan_file_name(graph, device, options, seeds) : "";
  if (const auto text = cache.is_on() ? cache.read(name) : std::nullopt) {
    auto known = read_plan(graph, device, options, *text);
    if (known) {
      out.planned = *std::move(known);
      out.was_known = true;
      return out;
    }
    const std::string path = printable(cache.path_of(name));
    out.note = fmt::format("{} cannot be used, and the step is planned again: {}", path,
                           known.error().render(path));
  }
  auto planned = make_fastest_plan(graph, device, options, seeds);
  if (!planned) return fail(std::move(planned.error()));
  out.planned = *std::move(planned);
  if (cache.is_on() && out.planned.plan) cache.write(name, to_text(out.planned.plan->file));
  return out;
}

}  // namespace ebb::exec

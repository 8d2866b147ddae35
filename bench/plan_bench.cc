// What planning costs, against what we promise, and what it gives.
//
//   plan_bench [NODES | STEP.ebb]...        (1000, 10000 and 100000 nodes)
//
// A number is the size of a residual network's training step, which is planned for 60 % of its
// arena, by greed alone (and then without recomputing, too) and with the usual search. A file is a
// step that is planned for 60, 40 and 30 %. CPU seconds, the least of some runs; all on an H200.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "ebb/base/file.h"
#include "ebb/graph/parse.h"
#include "ebb/plan/plan.h"
#include "examples/models.h"

namespace ebb {
namespace {

double cpu_seconds() {
  std::timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Figures {
  std::size_t nodes = 0;
  int percent = 0;  // of the arena that the step needs as it is
  double seconds = std::numeric_limits<double>::infinity();
  Planned planned{};

  [[nodiscard]] double per_node() const { return seconds / static_cast<double>(nodes); }
};

Figures measure(const Graph& graph, int percent, PlanOptions options) {
  constexpr double kSeconds = 3;
  constexpr int kMostRuns = 5;
  const Device device = find_device("h200").value();
  const Bytes all = unconstrained_bytes(graph, device, {}).value();
  options.budget = Bytes{all.count / 100 * percent};
  Figures figures{.nodes = graph.node_count(), .percent = percent};
  const double begin = cpu_seconds();
  for (int runs = 0; runs == 0 || (runs < kMostRuns && cpu_seconds() - begin < kSeconds); ++runs) {
    const double before = cpu_seconds();
    figures.planned = make_plan(graph, device, options).value();
    figures.seconds = std::min(figures.seconds, cpu_seconds() - before);
  }
  return figures;
}

// --- What is said about it.

void print_heading() {
  fmt::print("{:32} {:>8} {:>7} {:>9} {:>12} {:>10} {:>10} {:>8} {:>8}\n", "", "nodes", "budget",
             "seconds", "us per node", "simulated", "slow-down", "over", "changes");
}

void print_row(std::string_view name, const Figures& figures) {
  fmt::print("{:32} {:8} {:6}% {:9.3f} {:12.2f}", name, figures.nodes, figures.percent,
             figures.seconds, figures.per_node() * 1e6);
  const Planned& planned = figures.planned;
  const auto share = [](Bytes part, Bytes of) {
    return static_cast<double>(part.count) / static_cast<double>(of.count);
  };
  if (planned.plan) {
    const Plan& plan = *planned.plan;
    const double slow_down = std::chrono::duration<double>(plan.step()) /
                             std::chrono::duration<double>(planned.unconstrained_step);
    // Fragmentation: the arena beyond what is alive at one time.
    fmt::print(" {:10} {:9.3f}x {:7.2f}% {:8}\n", plan.evaluations, slow_down,
               (share(plan.arena.size, plan.arena.bound) - 1) * 100, plan.file.decisions.size());
  } else if (planned.infeasible) {
    fmt::print("   no plan: the least that was found is {:.1f} %\n",
               share(planned.infeasible->least, planned.unconstrained) * 100);
  }
  std::fflush(stdout);
}

void print_promise(std::string_view name, std::string_view promise, double found, double limit) {
  fmt::print("{:32} {:52} {:6.2f} of {:4.1f}  {}\n", name, promise, found, limit,
             found <= limit ? "kept" : "MISSED");
}

void print_promises(std::string_view name, const std::vector<Figures>& rows, double limit) {
  for (const Figures& row : rows) {
    if (row.nodes > 5'000 && row.nodes < 20'000) {
      print_promise(name, "seconds to plan 10^4 nodes", row.per_node() * 1e4, limit);
    }
    if (&row != &rows.front()) {
      print_promise(
          name,
          fmt::format("times as long per node with {} as with {}", row.nodes, rows.front().nodes),
          row.per_node() / rows.front().per_node(), 3);
    }
  }
}

// --- What it is measured on.

struct Case {
  std::string_view name;
  PlanOptions options;
  double limit = 0;  // of seconds for 10^4 nodes
};

void measure_sizes(const std::vector<std::size_t>& sizes) {
  const std::vector<Case> cases = {
      {"resnet, greed alone", {.evaluations = 0}, 0.3},
      {"resnet, greed alone, swaps alone", {.may_recompute = false, .evaluations = 0}, 0.3},
      {"resnet", {}, 2},
  };
  std::vector<std::vector<Figures>> figures(cases.size());
  for (const std::size_t size : sizes) {
    // A batch so large that what may leave is most of what there is.
    const examples::ResnetOptions base{.image = 32, .batch = 512};
    const Graph graph = examples::resnet(examples::resnet_of_size(size, base)).value();
    for (std::size_t i = 0; i < cases.size(); ++i) {
      figures[i].push_back(measure(graph, 60, cases[i].options));
      print_row(cases[i].name, figures[i].back());
    }
  }
  fmt::print("\n");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    print_promises(cases[i].name, figures[i], cases[i].limit);
  }
}

Status measure_file(const std::string& path) {
  const auto text = read_file(path);
  if (!text) return fail(text.error());
  const auto graph = parse_valid(*text);
  if (!graph) return fail(graph.error());
  const std::string name = path.substr(path.rfind('/') + 1);
  for (const int percent : {60, 40, 30}) print_row(name, measure(*graph, percent, {}));
  return {};
}

int run(int argc, char** argv) {
  std::vector<std::size_t> sizes;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    std::size_t size = 0;
    const auto [end, problem] =
        std::from_chars(argument.data(), argument.data() + argument.size(), size);
    if (problem == std::errc() && end == argument.data() + argument.size() && size > 0) {
      sizes.push_back(size);
    } else {
      files.emplace_back(argument);
    }
  }
  if (sizes.empty() && files.empty()) sizes = {1'000, 10'000, 100'000};
  std::sort(sizes.begin(), sizes.end());
  print_heading();
  for (const std::string& file : files) {
    const Status done = measure_file(file);
    if (done) continue;
    fmt::print(stderr, "{}: {}\n", file, done.error().message);
    return 2;
  }
  if (!sizes.empty()) measure_sizes(sizes);
  return 0;
}

}  // namespace
}  // namespace ebb

int main(int argc, char** argv) {
  try {
    return ebb::run(argc, argv);
  } catch (const std::exception& error) {
    std::fputs(error.what(), stderr);
    return 1;
  }
}

// What rewriting costs, against what we promise: choosing, applying and verifying together, and the
// proof that the result computes the same.
//
//   rewrite_bench [--all] [NODES...]        (100000 and 1000000; --all: more options and models)
//
// CPU seconds, the least of some runs; peak memory is that of the process in those runs, which
// hold the original, the rewritten graph and whatever the work needs besides.
#include <malloc.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <exception>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "ebb/base/check.h"
#include "ebb/rewrite/lms.h"
#include "ebb/rewrite/proof.h"
#include "ebb/rewrite/rewriter.h"
#include "examples/models.h"

namespace ebb {
namespace {

// --- What is measured.

double cpu_seconds() {
  std::timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Linux keeps the peak of a process, and forgets it when "5" is written here.
void forget_peak() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << '5';
}
double peak_gib() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word != "VmHWM:") continue;
    double kib = 0;
    status >> kib;
    return kib / (1024 * 1024);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

struct Figures {
  std::size_t nodes = 0;
  std::size_t rewritten_nodes = 0;
  std::size_t swaps = 0;
  double choose = std::numeric_limits<double>::infinity();
  double apply = std::numeric_limits<double>::infinity();
  double settle = std::numeric_limits<double>::infinity();
  double rewrite = std::numeric_limits<double>::infinity();  // all three, in one run
  double prove = std::numeric_limits<double>::infinity();
  double peak_gib = 0;

  [[nodiscard]] double rewrite_per_node() const { return rewrite / static_cast<double>(nodes); }
  [[nodiscard]] double prove_against_rewrite() const { return prove / rewrite; }
};

void measure_once(const Graph& original, const LmsOptions& options, Figures& figures) {
  Graph graph = original;
  const double begin = cpu_seconds();
  const LmsPlan plan = choose_swaps(graph, options).value();
  const double chosen = cpu_seconds();
  Rewriter rewriter(graph, {.verify_each = false});
  for (const SwapDecision& swap : plan.swaps) {
    const Status done = rewriter.apply(swap);
    EBB_CHECK(done.has_value(), "{}", done.error().message);
  }
  const double applied = cpu_seconds();
  rewriter.settle();
  const double settled = cpu_seconds();
  ProofOptions proof_options;
  proof_options.is_verified = true;
  const auto proof = prove_same(original, graph, proof_options);
  const double proved = cpu_seconds();
  EBB_CHECK(proof.has_value(), "{}", proof.error().message);

  figures.nodes = original.node_count();
  figures.rewritten_nodes = graph.node_count();
  figures.swaps = plan.swaps.size();
  figures.choose = std::min(figures.choose, chosen - begin);
  figures.apply = std::min(figures.apply, applied - chosen);
  figures.settle = std::min(figures.settle, settled - applied);
  figures.rewrite = std::min(figures.rewrite, settled - begin);
  figures.prove = std::min(figures.prove, proved - settled);
}

Figures measure(const Graph& original, const LmsOptions& options) {
  constexpr double kSeconds = 6;
  constexpr int kMostRuns = 9;
  Figures figures;
  forget_peak();
  const double begin = cpu_seconds();
  for (int runs = 0; runs < 2 || (runs < kMostRuns && cpu_seconds() - begin < kSeconds); ++runs) {
    measure_once(original, options, figures);
  }
  figures.peak_gib = peak_gib();
  return figures;
}

// --- What it is measured on.

Graph resnet(std::size_t nodes) {
  return examples::resnet(examples::resnet_of_size(nodes)).value();
}
Graph transformer(std::size_t nodes) {
  return examples::transformer(examples::transformer_of_size(nodes)).value();
}

struct Case {
  std::string_view name;
  Graph (*model)(std::size_t);
  LmsOptions options;
  bool is_promised = false;
};

std::vector<Case> cases() {
  return {
      {"resnet", resnet, {}, true},
      {"resnet, direct_order", resnet, {.ctrld_strategy = "direct_order"}, true},
      {"resnet, fuse_swapins", resnet, {.fuse_swapins = true}},
      {"resnet, lb 20", resnet, {.lb = 20}},
      {"resnet, swap_branches", resnet, {.swap_branches = true}},
      {"resnet, whole_graph", resnet, {.whole_graph = true}},
      {"transformer", transformer, {}},
      {"transformer, lb 3, fuse_swapins", transformer, {.lb = 3, .fuse_swapins = true}},
  };
}

// --- What is said about it.

void print_heading() {
  fmt::print("{:32} {:>8} {:>8} {:>7} {:>8} {:>8} {:>8} {:>8} {:>9} {:>8} {:>7} {:>8}\n", "",
             "nodes", "after", "swaps", "choose", "apply", "settle", "rewrite", "nodes/s", "prove",
             "ratio", "peak GiB");
}
void print_row(std::string_view name, const Figures& figures) {
  fmt::print(
      "{:32} {:8} {:8} {:7} {:8.3f} {:8.3f} {:8.3f} {:8.3f} {:8.2f}M {:8.3f} {:7.2f} {:8.2f}\n",
      name, figures.nodes, figures.rewritten_nodes, figures.swaps, figures.choose, figures.apply,
      figures.settle, figures.rewrite, static_cast<double>(figures.nodes) / figures.rewrite * 1e-6,
      figures.prove, figures.prove_against_rewrite(), figures.peak_gib);
  std::fflush(stdout);
}

void print_promise(std::string_view name, std::string_view promise, double found, double limit) {
  fmt::print("{:32} {:52} {:6.2f} of {:4.1f}  {}\n", name, promise, found, limit,
             found <= limit ? "kept" : "MISSED");
}
void print_promises(std::string_view name, const std::vector<Figures>& rows) {
  const Figures* small = nullptr;
  for (const Figures& row : rows) {
    if (row.nodes < 200'000) {
      small = &row;
      print_promise(name, "seconds to rewrite 10^5 nodes", row.rewrite_per_node() * 1e5, 0.5);
    } else {
      print_promise(name, "seconds to rewrite 10^6 nodes", row.rewrite_per_node() * 1e6, 8);
      print_promise(name, "GiB to rewrite 10^6 nodes",
                    row.peak_gib / static_cast<double>(row.nodes) * 1e6, 4);
      if (small != nullptr) {
        print_promise(name, "times as long per node as with 10^5 nodes",
                      row.rewrite_per_node() / small->rewrite_per_node(), 2);
      }
    }
    print_promise(name, fmt::format("times as long to prove as to rewrite ({} nodes)", row.nodes),
                  row.prove_against_rewrite(), 2);
  }
}

void measure_all(bool all, const std::vector<std::size_t>& sizes) {
  const std::vector<Case> known = cases();
  std::vector<std::vector<Figures>> figures(known.size());
  print_heading();
  for (const std::size_t size : sizes) {
    Graph graph;
    Graph (*model)(std::size_t) = nullptr;
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (!all && !known[i].is_promised) continue;
      if (known[i].model != model) graph = (model = known[i].model)(size);
      figures[i].push_back(measure(graph, known[i].options));
      print_row(known[i].name, figures[i].back());
    }
  }
  fmt::print("\n");
  for (std::size_t i = 0; i < known.size(); ++i) print_promises(known[i].name, figures[i]);
}

int run(int argc, char** argv) {
  bool all = false;
  std::vector<std::size_t> sizes;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    std::size_t size = 0;
    const auto [end, problem] =
        std::from_chars(argument.data(), argument.data() + argument.size(), size);
    if (argument == "--all") {
      all = true;
    } else if (problem == std::errc() && end == argument.data() + argument.size() && size > 0) {
      sizes.push_back(size);
    } else {
      fmt::print(stderr, "usage: rewrite_bench [--all] [NODES...]\n");
      return 2;
    }
  }
  if (sizes.empty()) sizes = {100'000, 1'000'000};
  std::sort(sizes.begin(), sizes.end());
  measure_all(all, sizes);
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

// Whether rewriting stays near linear on graphs and decisions that were made to be hard for it:
// many of something at one place, long chains, and searches that find nothing.
//
//   rewrite_worst_cases [N...]        (20000)
//
// CPU seconds for n and for 2n of whatever the case has many of: of the driver to choose, or of the
// rules to apply given decisions and verify what comes of them. About twice as long is linear,
// about four times is quadratic. Each is run once.
#include <charconv>
#include <cstdio>
#include <ctime>
#include <exception>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ebb/base/check.h"
#include "ebb/graph/parse.h"
#include "ebb/rewrite/decision.h"
#include "ebb/rewrite/lms.h"
#include "ebb/rewrite/rewriter.h"

namespace ebb {
namespace {

double cpu_seconds() {
  std::timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Lines of a graph, or of a plan.
class Text {
 public:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }
  // An operation and what it reads.
  void op(std::string_view name, const std::vector<std::string>& reads) {
    line("%{}: f32[8] = my::f(%{})", name, fmt::join(reads, ", %"));
  }
  [[nodiscard]] std::string graph(std::string_view returns) const {
    return fmt::format("graph g {{\ninput %x: f32[8]\n{}return %{}\n}}\n", text_, returns);
  }
  [[nodiscard]] const std::string& str() const { return text_; }

 private:
  std::string text_;
};

std::string at(std::string_view name, std::size_t i) { return fmt::format("{}{}", name, i); }

// What is measured: the driver where no decisions are given.
struct Problem {
  std::string graph;
  std::string decisions = {};  // NOLINT(readability-redundant-member-init): for designators
};

// --- For the driver.

void add_chain(Text& text, std::string_view name, std::size_t n) {
  text.op(at(name, 0), {"x"});
  for (std::size_t i = 1; i < n; ++i) text.op(at(name, i), {at(name, i - 1)});
}

Problem no_trigger_ahead(std::size_t n) {
  Text text;
  add_chain(text, "f", n);
  for (std::size_t i = 0; i < n; ++i) text.op(at("gradients/r", i), {at("f", i), at("f", n - 1)});
  return {.graph = text.graph("x")};
}

// Readers wait for backward operations, but for none that can be found from what they read.
Problem triggers_elsewhere(std::size_t n) {
  constexpr std::size_t kLater = 9;
  Text text;
  add_chain(text, "p", n + kLater);
  add_chain(text, "f", n);
  for (std::size_t i = 0; i < n; ++i) text.op(at("gradients/q", i), {at("p", i + kLater)});
  for (std::size_t i = 0; i < n; ++i) {
    text.op(at("gradients/r", i), {at("f", i), at("gradients/q", i)});
  }
  return {.graph = text.graph("x")};
}

Problem many_triggers_for_nobody(std::size_t n) {
  constexpr std::size_t kDepth = 5;
  Text text;
  add_chain(text, "f", kDepth);
  for (std::size_t i = 0; i < n; ++i) text.op(at("gradients/c", i), {at("f", kDepth - 2)});
  for (std::size_t i = 0; i < n; ++i) {
    text.op(at("gradients/r", i), {at("f", kDepth - 1), "f0"});
  }
  return {.graph = text.graph("x")};
}

// --- For the rules.

Problem delays_on_a_ladder(std::size_t n) {
  Text text;
  for (std::size_t i = 0; i < n; ++i) {
    text.op(at("a", i), {i == 0 ? "x" : at("a", i - 1)});
    text.op(at("b", i), {i == 0 ? "x" : at("b", i - 1)});
  }
  return {.graph = text.graph("x"),
          .decisions = fmt::format("delay a1 after b0\ndelay a2 after b{}\n", n - 1)};
}

Problem many_results_of_one_maker(std::size_t n) {
  std::vector<std::string> results;
  Text readers;
  Text swaps;
  for (std::size_t i = 0; i < n; ++i) {
    results.push_back(fmt::format("%a{}: f32[8]", i));
    readers.op(at("r", i), {"g", at("a", i)});
    swaps.line("swap %a{} for r{} after g", i, i);
  }
  Text text;
  text.line("{} = my::f(%x)", fmt::join(results, ", "));
  text.op("g", {"a0"});
  text.line("{}", readers.str());
  return {.graph = text.graph("x"), .decisions = swaps.str()};
}

std::string graph_with_views(std::size_t n) {
  Text text;
  text.op("a", {"x"});
  text.op("g", {"x"});
  for (std::size_t i = 0; i < n; ++i) text.line("%v{}: f32[8] ~ %a = my::v(%a)", i);
  for (std::size_t i = 0; i < n; ++i) text.op(at("r", i), {"g", at("v", i)});
  return text.graph("x");
}

Problem many_views_in_one_group(std::size_t n) {
  std::vector<std::string> readers;
  readers.reserve(n);
  for (std::size_t i = 0; i < n; ++i) readers.push_back(at("r", i));
  return {.graph = graph_with_views(n),
          .decisions = fmt::format("swap %a for {} after g\n", fmt::join(readers, ", "))};
}

Problem many_swap_ins_after_one_trigger(std::size_t n) {
  Text swaps;
  for (std::size_t i = 0; i < n; ++i) swaps.line("swap %a for r{} after g", i);
  return {.graph = graph_with_views(n), .decisions = swaps.str()};
}

// --- Measuring.

double seconds_to_choose(const Graph& graph) {
  const double begin = cpu_seconds();
  const auto plan = choose_swaps(graph, {});
  EBB_CHECK(plan.has_value(), "{}", plan.error().message);
  return cpu_seconds() - begin;
}

double seconds_to_apply(Graph graph, std::string_view text) {
  std::vector<Decision> decisions;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    decisions.push_back(parse_decision(graph, text.substr(0, end)).value());
    text.remove_prefix(end + 1);
  }
  const double begin = cpu_seconds();
  Rewriter rewriter(graph, {.verify_each = false});
  for (const Decision& decision : decisions) {
    const Status done = rewriter.apply(decision);
    EBB_CHECK(done.has_value(), "{}", done.error().message);
  }
  rewriter.settle();
  return cpu_seconds() - begin;
}

double seconds_for(const Problem& problem) {
  Graph graph = parse_valid(problem.graph).value();
  return problem.decisions.empty() ? seconds_to_choose(graph)
                                   : seconds_to_apply(std::move(graph), problem.decisions);
}

struct Case {
  std::string_view name;
  Problem (*make)(std::size_t);
};

void measure_all(std::size_t n) {
  constexpr Case kCases[] = {
      {"no trigger ahead", no_trigger_ahead},
      {"triggers elsewhere", triggers_elsewhere},
      {"many triggers for nobody", many_triggers_for_nobody},
      {"delays on a ladder", delays_on_a_ladder},
      {"many results of one maker", many_results_of_one_maker},
      {"many views in one group", many_views_in_one_group},
      {"many swap-ins after one trigger", many_swap_ins_after_one_trigger},
  };
  fmt::print("{:32} {:>9} {:>9} {:>6}\n", "", n, 2 * n, "ratio");
  for (const Case& each : kCases) {
    const double once = seconds_for(each.make(n));
    const double twice = seconds_for(each.make(2 * n));
    fmt::print("{:32} {:9.3f} {:9.3f} {:6.1f}\n", each.name, once, twice, twice / once);
    std::fflush(stdout);
  }
}

int run(int argc, char** argv) {
  std::vector<std::size_t> sizes;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    std::size_t size = 0;
    const auto [end, problem] =
        std::from_chars(argument.data(), argument.data() + argument.size(), size);
    if (problem != std::errc() || end != argument.data() + argument.size() || size < 10) {
      fmt::print(stderr, "usage: rewrite_worst_cases [N...]        (10 or more)\n");
      return 2;
    }
    sizes.push_back(size);
  }
  if (sizes.empty()) sizes = {20'000};
  for (const std::size_t size : sizes) measure_all(size);
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

// Runs the text tests: files of cases, each a graph and what is expected of it.
//
//   === title, a claim
//   --- graph
//   graph g { ... }
//   --- expect gamma
//   h 1
//
// `ebb_text_tests FOLDER` makes each case of FOLDER/*.test a GoogleTest case; with --update it
// writes what came out into the files instead, for review. docs/testing.md lists the sections.
#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <ranges>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ebb/base/file.h"
#include "ebb/graph/dependence.h"
#include "ebb/graph/dot.h"
#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"
#include "ebb/graph/verify.h"
#include "ebb/lower/program.h"
#include "ebb/order/gamma.h"
#include "ebb/order/liveness.h"
#include "ebb/report/summary.h"
#include "ebb/rewrite/lms_rewrite.h"
#include "ebb/rewrite/proof.h"
#include "ebb/rewrite/rewriter.h"
#include "tools/ebb/lms_options.h"

namespace ebb {
namespace {

struct Section {
  std::string name;  // "graph", "expect gamma"
  std::string body;
};
struct Case {
  std::string title;
  std::string comment;  // between the title and the first section
  std::vector<Section> sections;
  std::string graph_above;  // of the case before, for "--- graph above"
};
struct File {
  std::string path;
  std::string preamble;  // comments before the first case
  std::vector<Case> cases;
};

File read_cases(const std::string& path) {
  File file{path, {}, {}};
  const std::string text = read_file(path).value();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string line = text.substr(at, end - at);
    at = end;
    if (line.starts_with("=== ")) {
      file.cases.push_back({line.substr(4, line.size() - 5), {}, {}, {}});
    } else if (file.cases.empty()) {
      file.preamble += line;
    } else if (line.starts_with("--- ")) {
      file.cases.back().sections.push_back({line.substr(4, line.size() - 5), {}});
    } else if (file.cases.back().sections.empty()) {
      file.cases.back().comment += line;
    } else {
      file.cases.back().sections.back().body += line;
    }
  }
  std::string above;
  for (Case& test : file.cases) {
    test.graph_above = above;
    for (const Section& section : test.sections) {
      if (section.name == "graph") above = section.body;
    }
  }
  return file;
}

std::string written(const File& file) {
  std::string out = file.preamble;
  for (const Case& test : file.cases) {
    out += fmt::format("=== {}\n{}", test.title, test.comment);
    for (const Section& section : test.sections) {
      out += fmt::format("--- {}\n{}", section.name, section.body);
    }
  }
  return out;
}

// "\xff" and "\r" in a section "graph escaped" become the bytes they name; one last line break is
// dropped, so that a text can end anywhere.
std::string unescaped(const std::string& body) {
  std::string out;
  for (std::size_t i = 0; i + 1 < body.size(); ++i) {
    if (body.compare(i, 2, "\\x") == 0) {
      out += static_cast<char>(std::stoi(body.substr(i + 2, 2), nullptr, 16));
      i += 3;
    } else {
      out += body[i];
    }
  }
  return out;
}

std::string gamma_of(const Graph& graph) {
  const Gamma gamma(graph);
  std::string out;
  for (const NodeId node : graph.order())
    out += fmt::format("{} {}\n", graph.name(node), gamma[node]);
  return out;
}

std::string lifetimes_of(const Graph& graph) {
  const auto lifetime = lifetimes(graph, Gamma(graph));
  std::string out;
  for (const TensorId tensor : graph.tensors()) {
    out += fmt::format("%{} {}\n", graph.name(tensor), lifetime[tensor.index()]);
  }
  return out;
}

std::string dependence_of(const Graph& graph) {
  constexpr std::array kReasons = {"read after write", "write after write", "write after read",
                                   "control"};
  const Dependence dependence(graph);
  std::string out;
  for (const NodeId node : graph.order()) {
    for (const auto& edge : dependence.before(node)) {
      out += fmt::format("{} waits for {}: {}\n", graph.name(node), graph.name(edge.node),
                         kReasons[static_cast<std::size_t>(edge.reason)]);
    }
  }
  return out;
}

std::string memory_of(const Graph& graph) {
  const MemoryCurve curve = memory_curve(graph, find_lives(graph));
  std::string out;
  for (std::size_t i = 0; i < graph.order().size(); ++i) {
    out += fmt::format("{} {}", graph.name(graph.order()[i]), to_text(curve.device[i]));
    if (curve.host_peak.count > 0) out += fmt::format(" host {}", to_text(curve.host[i]));
    out += '\n';
  }
  if (curve.unknown_sizes > 0) out += fmt::format("unknown sizes {}\n", curve.unknown_sizes);
  return out;
}

std::string floor_of(const Graph& graph) {
  const Floor floor = find_floor(graph);
  return fmt::format("{} {}\n", floor.node.valid() ? graph.name(floor.node) : "none",
                     to_text(floor.bytes));
}

std::string implicit_copies_of(const Graph& graph) {
  std::string out;
  for (const ImplicitCopy& copy : find_implicit_copies(graph)) {
    out += fmt::format("{} reads %{}\n", graph.name(copy.reader), graph.name(copy.tensor));
  }
  return out;
}

// The lines that run when nothing but the tensor is asked for.
std::string fetching(const Graph& graph, std::string_view name) {
  const TensorId tensor = graph.find_tensor(name);
  if (!tensor.valid()) return fmt::format("no such tensor: {}\n", name);
  const auto lines = graph.order();
  std::vector<bool> runs(graph.node_count());
  runs[graph.producer(tensor).index()] = true;
  std::string out;
  for (const NodeId line : std::views::reverse(lines)) {
    if (!runs[line.index()]) continue;
    for (const Operand& operand : graph.operands(line)) {
      if (operand.tensor.valid()) runs[graph.producer(operand.tensor).index()] = true;
    }
    graph.for_each_scalar_read(
        line, [&](ScalarId scalar) { runs[graph.producer(scalar).index()] = true; });
    for (const NodeId control : graph.controls(line)) runs[control.index()] = true;
  }
  for (const NodeId node : lines) {
    if (runs[node.index()]) out += fmt::format("{}\n", graph.name(node));
  }
  return out;
}

// Every kernel asks for its new results and for the workspace that its line names.
std::vector<Recipe> plain_recipes(const Graph& graph) {
  std::vector<Recipe> recipes(graph.node_count());
  for (const NodeId node : graph.nodes()) {
    if (instruction_kind(graph, node) != InstructionKind::kKernel) continue;
    auto& requests = recipes[node.index()].requests;
    std::int32_t index = 0;
    for (const TensorId result : graph.results(node)) {
      const Bytes size = extent(graph.type(result)).value_or(Bytes{});
      const bool is_new = graph.root(graph.storage(result)) == result;
      if (is_new && size.count > 0) requests.push_back({.size = size, .result = index});
      ++index;
    }
    const auto count = static_cast<std::uint32_t>(requests.size());
    if (const Bytes workspace = graph.workspace(node); workspace.count > 0) {
      requests.push_back({.size = workspace, .freed_after = count + 1});
    }
  }
  return recipes;
}

std::string program_with(const Graph& graph, const LowerOptions& options) {
  const auto recipes = plain_recipes(graph);
  const auto program = lower(graph, recipes, options);
  if (!program) return "error: " + program.error().render("test.ebb") + "\n";
  const Status right = check_program(graph, recipes, *program, options);
  if (!right) return "error: " + right.error().render("test.ebb") + "\n";
  return to_text(graph, *program);
}

std::string program_of(const Graph& graph) { return program_with(graph, {}); }
std::string program_apart_of(const Graph& graph) {
  return program_with(graph, {.reuse_in_place = false});
}

std::string json_of(const Graph& graph) { return to_json(graph, summarize(graph)); }
std::string show_of(const Graph& graph) { return to_text(graph, summarize(graph)); }

using Question = std::string (*)(const Graph&);
const std::map<std::string, Question>& questions() {
  static const std::map<std::string, Question> kQuestions = {
      {"expect", [](const Graph& graph) { return print(graph); }},
      {"expect gamma", gamma_of},
      {"expect lifetimes", lifetimes_of},
      {"expect dependence", dependence_of},
      {"expect memory", memory_of},
      {"expect floor", floor_of},
      {"expect implicit copies", implicit_copies_of},
      {"expect dot", to_dot},
      {"expect program", program_of},
      {"expect program without reuse", program_apart_of},
      {"expect show", show_of},
      {"expect json", json_of},
  };
  return kQuestions;
}

// What a case has said so far.
struct Context {
  std::string graph;
  std::string decisions;                   // to apply, one a line
  std::optional<std::string> lms_options;  // to rewrite by the paper's driver
  std::string rewritten;                   // to be proved the same computation
};

template <class T>
using OrText = tl::expected<T, std::string>;

// Applies the decisions, or the first error as text.
OrText<Graph> rewritten(Graph graph, const std::string& decisions) {
  const Graph original = graph;
  Rewriter rewriter(graph, {.verify_each = true});
  std::istringstream lines(decisions);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    auto decision = parse_decision(graph, line);
    if (!decision) {
      decision.error().place.line = number;
      return tl::make_unexpected(decision.error().render("decisions"));
    }
    EXPECT_EQ(to_text(graph, *decision), line);
    const std::string before = print(graph);
    const Status done = rewriter.apply(*decision);
    if (!done) {
      EXPECT_EQ(print(graph), before) << "a refused decision changed the graph";
      return tl::make_unexpected(done.error().render(""));
    }
  }
  rewriter.settle();
  prove_rewrite(original, graph);
  return graph;
}

// In the words of the command line, on one line or several.
OrText<LmsOptions> lms_options(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  CLI::App app;
  LmsOptions options;
  tool::add_lms_options(app, options);
  try {
    app.parse(text);
  } catch (const CLI::ParseError& error) {
    return tl::make_unexpected(std::string(error.what()));
  }
  return options;
}

// The verifier looks after every swap, and the result is proved, or this throws.
OrText<LmsRewritten> rewritten_by_lms(const Graph& graph, const std::string& options_text) {
  const auto options = lms_options(options_text);
  if (!options) return tl::make_unexpected(options.error());
  auto done = rewrite_by_lms(graph, *options, {.verify_each = true});
  if (!done) return tl::make_unexpected(done.error().render(""));
  return *std::move(done);
}

std::string decisions_of(const Graph& /*original*/, const LmsRewritten& done) {
  std::string out;
  for (const JournalEntry& entry : done.journal) {
    out += to_text(done.graph, entry.decision) + "\n";
  }
  return out;
}

std::string refused_of(const Graph& /*original*/, const LmsRewritten& done) {
  const Graph& graph = done.graph;  // where clones are that would read
  std::string out;
  for (const LmsRefused& refused : done.plan.refused) {
    out += fmt::format("%{} for {}: {}\n", graph.name(refused.tensor), graph.name(refused.consumer),
                       reason_of(refused));
  }
  return out;
}

using LmsQuestion = std::string (*)(const Graph& original, const LmsRewritten&);
const std::map<std::string, LmsQuestion>& lms_questions() {
  static const std::map<std::string, LmsQuestion> kQuestions = {
      {"expect decisions", decisions_of},
      {"expect refused", refused_of},
      {"expect summary", lms_summary},
  };
  return kQuestions;
}

OrText<std::string> proof_of(const Graph& original, const std::string& rewritten) {
  const auto graph = parse_valid(rewritten);
  if (!graph) return tl::make_unexpected(graph.error().render("rewritten.ebb"));
  const auto proof = prove_same(original, *graph);
  if (!proof) return tl::make_unexpected(proof.error().render(""));
  return to_text(*proof) + "\n";
}

OrText<std::string> answer_about(const Graph& graph, const std::string& section) {
  constexpr std::string_view kFetching = "expect fetching %";
  if (section.starts_with(kFetching)) return fetching(graph, section.substr(kFetching.size()));
  if (section == "expect error") return "no error\n";
  const auto question = questions().find(section);
  return question == questions().end() ? fmt::format("no such section: {}\n", section)
                                       : question->second(graph);
}

OrText<std::string> answer_or_error(const Context& context, const std::string& section) {
  auto graph = parse_valid(context.graph);
  if (!graph) return tl::make_unexpected(graph.error().render("test.ebb"));
  if (!context.rewritten.empty()) {
    auto proof = proof_of(*graph, context.rewritten);
    if (!proof || section == "expect proof") return proof;
    return answer_about(parse_valid(context.rewritten).value(), section);
  }
  if (context.lms_options) {
    const auto done = rewritten_by_lms(*graph, *context.lms_options);
    if (!done) return tl::make_unexpected(done.error());
    const auto question = lms_questions().find(section);
    if (question != lms_questions().end()) return question->second(*graph, *done);
    return answer_about(done->graph, section);
  }
  const auto applied = rewritten(*std::move(graph), context.decisions);
  if (!applied) return tl::make_unexpected(applied.error());
  return answer_about(*applied, section);
}

// What the section should say, given what the sections above it say.
std::string answer(const Context& context, const std::string& section) {
  const auto text = answer_or_error(context, section);
  if (text) return *text;
  return (section == "expect error" ? "" : "error: ") + text.error() + "\n";
}

// Calls visit(section, what came out) for each expectation of the case.
void evaluate(Case& test, const std::function<void(Section&, const std::string&)>& visit) {
  Context context;
  const auto begin = [&](std::string graph) {
    context = Context();
    context.graph = std::move(graph);
  };
  for (Section& section : test.sections) {
    if (section.name == "graph") {
      begin(section.body);
    } else if (section.name == "graph above") {
      begin(test.graph_above);
    } else if (section.name == "graph escaped") {
      begin(unescaped(section.body));
    } else if (section.name == "apply") {
      begin(context.graph);
      context.decisions = section.body;
    } else if (section.name == "rewrite") {
      begin(context.graph);
      context.lms_options = section.body;
    } else if (section.name == "rewritten") {
      begin(context.graph);
      context.rewritten = section.body;
    } else {
      visit(section, answer(context, section.name));
    }
  }
}

class TextCase : public testing::Test {
 public:
  explicit TextCase(Case test) : test_(std::move(test)) {}
  void TestBody() override {
    int expectations = 0;
    evaluate(test_, [&](const Section& section, const std::string& actual) {
      EXPECT_EQ(section.body, actual) << "in --- " << section.name;
      ++expectations;
    });
    EXPECT_GT(expectations, 0) << "a case without an expectation";
    for (const Section& section : test_.sections) {
      if (section.name == "expect") expect_round_trip(section.body);
    }
  }

 private:
  // What we print reads back as the same, and nothing about it changes.
  static void expect_round_trip(const std::string& canonical) {
    const auto graph = parse_valid(canonical);
    ASSERT_TRUE(graph) << graph.error().render("test.ebb");
    EXPECT_EQ(print(*graph), canonical);
  }

  Case test_;
};

// "late reader gets the copy" -> "late_reader_gets_the_copy", as GoogleTest wants names.
std::string identifier(const std::string& title) {
  std::string out = title;
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return out;
}

int run(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc < 2) {
    fmt::print(stderr, "usage: ebb_text_tests FOLDER [--update]\n");
    return 2;
  }
  const bool update = argc > 2 && std::string(argv[2]) == "--update";
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    if (entry.path().extension() == ".test") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  if (paths.empty()) {
    fmt::print(stderr, "no *.test files in {}\n", argv[1]);
    return 2;
  }
  for (const std::string& path : paths) {
    File file = read_cases(path);
    if (update) {
      for (Case& test : file.cases) {
        evaluate(test, [](Section& section, const std::string& actual) { section.body = actual; });
      }
      if (!write_file(path, written(file))) return 1;
      continue;
    }
    const std::string suite = identifier(std::filesystem::path(path).stem().string());
    for (const Case& test : file.cases) {
      testing::RegisterTest(suite.c_str(), identifier(test.title).c_str(), nullptr, nullptr,
                            path.c_str(), 1, [test]() -> TextCase* { return new TextCase(test); });
    }
  }
  return update ? 0 : RUN_ALL_TESTS();
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

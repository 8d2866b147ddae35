#include "ebb/graph/verify.h"

#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "ebb/base/file.h"
#include "ebb/export/rewrite_functions.h"
#include "ebb/graph/text_names.h"
#include "ebb/import/graphdef_file_node.h"
#include "ebb/rewrite/proof.h"
#include "input.h"
#include "progress.h"

namespace ebb::tool {
namespace {

struct VerifyOptions {
  std::string input;
  std::string rewritten;  // empty: the question is about one graph
  TensorFlowOptions tensorflow;
  bool allow_lossy = false;
  bool json = false;
};

using Json = nlohmann::ordered_json;

std::string dumped(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string json_text(const ParsedGraph& parsed, const std::vector<Violation>& found) {
  Json violations = Json::array();
  for (const Violation& violation : found) {
    const Error error = as_error(violation, parsed);
    violations.push_back(
        Json{{"code", violation.code},
             {"line", error.place.line > 0 ? Json(error.place.line) : Json()},
             {"node", violation.node.valid() ? Json(parsed.graph.name(violation.node)) : Json()},
             {"message", violation.message}});
  }
  const Json out{
      {"valid", found.empty()},
      {"nodes", counted_nodes(parsed.graph)},
      {"implicit_copies", found.empty() ? Json(find_implicit_copies(parsed.graph).size()) : Json()},
      {"violations", std::move(violations)}};
  return dumped(out);
}

void print_notes(const ParsedGraph& parsed, const std::string& name) {
  constexpr std::size_t kShown = 10;
  const auto copies = find_implicit_copies(parsed.graph);
  for (std::size_t i = 0; i < copies.size() && i < kShown; ++i) {
    const auto& [tensor, reader] = copies[i];
    write_to_stderr(
        fmt::format("ebb: {}:{}: note: '{}' reads %{}, which is on the host; it is copied on the "
                    "spot\n",
                    name, parsed.lines[reader.index()], spelled(parsed.graph.name(reader)),
                    spelled(parsed.graph.name(tensor))));
  }
  if (copies.size() > kShown) {
    write_to_stderr(
        fmt::format("ebb: {}: note: and {} more such reads\n", name, copies.size() - kShown));
  }
}

// Where a node stands in its text, or nothing: files of TensorFlow's have no lines.
std::optional<int> line_of(const ParsedGraph& parsed, NodeId node) {
  if (!node.valid() || parsed.lines[node.index()] == 0) return {};
  return parsed.lines[node.index()];
}

std::string json_text(const ParsedGraph& original, const ParsedGraph& rewritten,
                      const tl::expected<Proof, Difference>& proof) {
  Json out{{"same", proof.has_value()}};
  if (proof) {
    out["nodes"] = proof->nodes;
    out["added"] = Json{{"swap_outs", proof->swap_outs}, {"swap_ins", proof->swap_ins},
                        {"encodes", proof->encodes},     {"decodes", proof->decodes},
                        {"snapshots", proof->snapshots}, {"clones", proof->clones},
                        {"splits", proof->splits},       {"control_edges", proof->control_edges}};
    out["difference"] = nullptr;
    return dumped(out);
  }
  const Difference& difference = proof.error();
  const auto json_line = [](std::optional<int> line) { return line ? Json(*line) : Json(); };
  out["nodes"] = nullptr;
  out["added"] = nullptr;
  out["difference"] = Json{{"code", difference.code},
                           {"original_line", json_line(line_of(original, difference.original))},
                           {"line", json_line(line_of(rewritten, difference.rewritten))},
                           {"message", difference.message}};
  return dumped(out);
}

tl::expected<Proof, Difference> prove(const Graph& original, const Graph& rewritten,
                                      const VerifyOptions& options) {
  const Progress progress("comparing");
  if (const auto found = find_violations(original, 1); !found.empty()) {
    return tl::make_unexpected(
        Difference{std::string(found[0].code), found[0].node, NodeId(),
                   fmt::format("the original is wrong by itself: {}", found[0].message)});
  }
  ProofOptions proof_options;
  proof_options.allow_lossy = options.allow_lossy;
  return compare_computations(original, rewritten, proof_options);
}

// The functions that the two graphs call: how many differ and were proved the same. Where there are
// any, the rewritten graph gets the original ones, so that it is compared by itself.
Result<std::size_t> prove_libraries(const InputGraph& original, InputGraph& rewritten,
                                    const VerifyOptions& options) {
  if (!original.tensorflow || !rewritten.tensorflow) return std::size_t{0};  // a text has none
  const std::string_view before = original.tensorflow->graphdef();
  const std::string_view after = rewritten.tensorflow->graphdef();
  const auto proved = prove_functions(before, after, options.tensorflow.reading());
  if (!proved) return fail(proved.error());
  if (*proved == 0) return std::size_t{0};
  auto graph = import_graphdef(with_functions_of(before, after), options.tensorflow.reading());
  if (!graph) return fail(in_file(graph.error(), rewritten.path));
  rewritten.parsed.graph = *std::move(graph);
  return static_cast<std::size_t>(*proved);
}

Result<int> verify_pair(const VerifyOptions& options) {
  if (options.input == "-" && options.rewritten == "-") {
    return fail(ErrorKind::kUsage, "standard input can be only one of the two graphs");
  }
  const auto original_input = read_input(options.input, options.tensorflow);
  if (!original_input) return fail(original_input.error());
  auto rewritten_input = read_input(options.rewritten, options.tensorflow);
  if (!rewritten_input) return fail(rewritten_input.error());
  if (auto ok = options.tensorflow.check_read({original_input->read(), rewritten_input->read()});
      !ok) {
    return fail(ok.error());
  }
  const ParsedGraph& original = original_input->parsed;
  ParsedGraph& rewritten = rewritten_input->parsed;
  const auto functions = prove_libraries(*original_input, *rewritten_input, options);
  if (!functions) {
    const Error& error = functions.error();
    if (error.kind != ErrorKind::kRefused) return fail(error);
    write_to_stderr(fmt::format("ebb: {}\n", error.render(shown_name(options.rewritten))));
    if (options.json) {
      const Difference difference{
          .code = {}, .original = {}, .rewritten = {}, .message = error.message};
      const std::string out = json_text(original, rewritten, tl::make_unexpected(difference));
      if (auto written = write_file("-", out); !written) return fail(written.error());
    }
    return static_cast<int>(ErrorKind::kRefused);
  }
  const auto proof = prove(original.graph, rewritten.graph, options);
  const std::string original_name = shown_name(options.input);
  const std::string rewritten_name = shown_name(options.rewritten);
  std::string text;
  if (!proof) {
    const Difference& difference = proof.error();
    const bool in_original = !difference.rewritten.valid() && difference.original.valid();
    const auto line = in_original ? line_of(original, difference.original)
                                  : line_of(rewritten, difference.rewritten);
    const Error error{.kind = ErrorKind::kRefused,
                      .code = difference.code,
                      .message = difference.message,
                      .place = {.line = line.value_or(0), .column = 0}};
    write_to_stderr(
        fmt::format("ebb: {}\n", error.render(in_original ? original_name : rewritten_name)));
  } else {
    const std::string changed =
        *functions == 0 ? std::string()
                        : fmt::format("; {} of its functions changed, and compute{} the same",
                                      *functions, *functions == 1 ? "s" : "");
    text = fmt::format("{}: the same computation as {}: {}{}\n", rewritten_name, original_name,
                       to_text(*proof), changed);
  }
  if (options.json) text = json_text(original, rewritten, proof);
  if (auto written = write_file("-", text); !written) return fail(written.error());
  return proof ? 0 : static_cast<int>(ErrorKind::kRefused);
}

Result<int> verify(const VerifyOptions& options) {
  if (!options.rewritten.empty()) return verify_pair(options);
  const auto input = read_input(options.input, options.tensorflow);
  if (!input) return fail(input.error());
  if (auto ok = options.tensorflow.check_read({input->read()}); !ok) return fail(ok.error());
  const ParsedGraph& parsed = input->parsed;
  const std::string name = shown_name(options.input);
  std::vector<Violation> found;
  {
    const Progress progress("checking");
    found = find_violations(parsed.graph);
  }
  for (const Violation& violation : found) {
    write_to_stderr(fmt::format("ebb: {}\n", as_error(violation, parsed).render(name)));
  }
  std::string text;
  if (options.json) {
    text = json_text(parsed, found);
  } else if (found.empty()) {
    text = fmt::format("{}: valid: {} nodes, all {} invariants hold\n", name,
                       counted_nodes(parsed.graph), invariant_count());
    print_notes(parsed, name);
  }
  if (auto written = write_file("-", text); !written) return fail(written.error());
  return found.empty() ? 0 : static_cast<int>(ErrorKind::kRefused);
}

}  // namespace

Command add_verify(CLI::App& app) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command = app.add_subcommand(
      "verify", "Whether a graph keeps every invariant; whether two are the same computation");
  command->add_option("IN", options->input, kInputHelp)->required();
  auto* rewritten = command->add_option(
      "REWRITTEN", options->rewritten,
      "What was made of it by rewriting: prove that it is the same computation");
  command
      ->add_flag("--allow-lossy", options->allow_lossy,
                 "Take what a lossy codec gives back for what was encoded")
      ->needs(rewritten);
  command->add_flag("--json", options->json, "Print one JSON object");
  options->tensorflow.add_reading(*command);
  command->footer(
      "Exit status: 0 when every invariant holds, or the computation is the same; 5 when not; 3 "
      "when\n"
      "a file is no graph (docs/errors.md explains each code).\n\n"
      "Examples:\n"
      "  ebb verify examples/resnet.ebb\n"
      "  ebb verify step.ebb rewritten.ebb\n"
      "  ebb verify graph.pb rewritten.pb\n"
      "  ebb-example mlp | ebb verify -");
  return {command, [options] { return verify(*options); }};
}

}  // namespace ebb::tool

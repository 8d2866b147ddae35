#include "ebb/graph/verify.h"

#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "ebb/base/file.h"
#include "ebb/graph/text_names.h"
#include "input.h"
#include "progress.h"

namespace ebb::tool {
namespace {

struct VerifyOptions {
  std::string input;
  bool json = false;
};

std::string json_text(const ParsedGraph& parsed, const std::vector<Violation>& found) {
  using Json = nlohmann::ordered_json;
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
      {"nodes", parsed.graph.node_count()},
      {"implicit_copies", found.empty() ? Json(find_implicit_copies(parsed.graph).size()) : Json()},
      {"violations", std::move(violations)}};
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
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

Result<int> verify(const VerifyOptions& options) {
  const auto parsed = read_graph_text(options.input);
  if (!parsed) return fail(parsed.error());
  const std::string name = shown_name(options.input);
  std::vector<Violation> found;
  {
    const Progress progress("checking");
    found = find_violations(parsed->graph);
  }
  for (const Violation& violation : found) {
    write_to_stderr(fmt::format("ebb: {}\n", as_error(violation, *parsed).render(name)));
  }
  std::string text;
  if (options.json) {
    text = json_text(*parsed, found);
  } else if (found.empty()) {
    text = fmt::format("{}: valid: {} nodes, all {} invariants hold\n", name,
                       parsed->graph.node_count(), invariant_count());
    print_notes(*parsed, name);
  }
  if (auto written = write_file("-", text); !written) return fail(written.error());
  return found.empty() ? 0 : static_cast<int>(ErrorKind::kRefused);
}

}  // namespace

Command add_verify(CLI::App& app) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command = app.add_subcommand("verify", "Whether a graph keeps every invariant");
  command->add_option("IN", options->input, "The graph, an .ebb text; - is standard input")
      ->required();
  command->add_flag("--json", options->json, "Print one JSON object");
  command->footer(
      "Exit status: 0 when every invariant holds, 5 when one does not, 3 when the text is no "
      "graph\n"
      "(docs/errors.md explains each code).\n\n"
      "Examples:\n"
      "  ebb verify examples/resnet.ebb\n"
      "  ebb-example mlp | ebb verify -");
  return {command, [options] { return verify(*options); }};
}

}  // namespace ebb::tool

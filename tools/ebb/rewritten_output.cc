#include "rewritten_output.h"

#include <filesystem>

#include <fmt/format.h>

#include "ebb/base/file.h"
#include "ebb/graph/print.h"
#include "ebb/rewrite/decision.h"
#include "progress.h"

namespace ebb::tool {

void RewrittenOutput::add_options(CLI::App& command) {
  command
      .add_option("-o,--output", path, "Where to write the graph, as .ebb; - is standard output")
      ->required();
  command
      .add_option("--dump-after", dump_after,
                  "'each': print the graph after every decision, on standard error")
      ->check(CLI::IsMember({"each"}));
}

bool are_one_file(const std::string& a, const std::string& b) {
  if (a == b) return true;
  std::error_code ignored;
  return std::filesystem::equivalent(a, b, ignored);
}

Status RewrittenOutput::check(bool json, const std::string& kept) const {
  if (json && path == "-") {
    return fail(ErrorKind::kUsage, "--json and the graph both want standard output; name a file");
  }
  if (!kept.empty() && are_one_file(path, kept)) {
    return fail(ErrorKind::kUsage,
                fmt::format("the graph and the plan would be one file, '{}'; give two names",
                            printable(path)));
  }
  return {};
}

RewriterOptions RewrittenOutput::rewriting() const {
  RewriterOptions options;
  if (dump_after.empty()) return options;
  options.after_each = [](const Graph& graph, const Decision& decision) {
    write_to_stderr(fmt::format("# after: {}\n{}", to_text(graph, decision), print(graph)));
  };
  return options;
}

Status RewrittenOutput::write(const Graph& graph) const {
  const Progress progress("writing");
  return write_file(path, print(graph));
}

}  // namespace ebb::tool

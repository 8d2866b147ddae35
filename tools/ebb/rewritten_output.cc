#include "rewritten_output.h"

#include <filesystem>

#include <fmt/format.h>

#include "ebb/base/file.h"
#include "ebb/graph/print.h"
#include "ebb/rewrite/decision.h"
#include "input.h"

namespace ebb::tool {

void RewrittenOutput::add_options(CLI::App& command) {
  command
      .add_option("-o,--output", path,
                  "Where to write the graph: .ebb, .pb or .pbtxt by its suffix, else as it was "
                  "read;\n- is standard output")
      ->required();
  add_form(command);
  command
      .add_option("--dump-after", dump_after,
                  "'each': print the graph after every decision, on standard error")
      ->check(CLI::IsMember({"each"}));
}

void RewrittenOutput::add_optional(CLI::App& command) {
  auto* output =
      command.add_option("-o,--output", path,
                         "Where to write the rewritten graph: .ebb, .pb or .pbtxt by its suffix, "
                         "else as it was\nread; without it, nothing is written");
  add_form(command)->needs(output);
}

CLI::Option* RewrittenOutput::add_form(CLI::App& command) {
  return command.add_option("--to", format, "The form, whatever the suffix: ebb, pb, pbtxt")
      ->check(CLI::IsMember({"ebb", "pb", "pbtxt"}));
}

bool are_one_file(const std::string& a, const std::string& b) {
  if (a == b) return true;
  std::error_code ignored;
  return std::filesystem::equivalent(a, b, ignored);
}

Status check_codec(Form form, const LmsOptions& parameters) {
  if (!is_tensorflow(form) || parameters.codec.empty()) return {};
  return fail(ErrorKind::kUsage,
              "--codec has no form in TensorFlow's files yet; leave it out, or write .ebb");
}

Status RewrittenOutput::check(bool json, const std::string& kept) const {
  for (const std::string& output : {path, kept}) {
    if (Status ok = check_is_no_state(output); !ok) return ok;
  }
  if (json && path == "-") {
    return fail(ErrorKind::kUsage, "--json and the graph both want standard output; name a file");
  }
  if (!kept.empty() && are_one_file(path, kept)) {
    return fail(ErrorKind::kUsage,
                fmt::format("the graph and the plan would be one file, '{}'; give two names",
                            printable(path)));
  }
  if (format.empty() && form_of_suffix(path) == Form::kDot) {
    return fail(ErrorKind::kUsage,
                fmt::format("'{}' would be a drawing; write a graph, and 'ebb convert' draws it",
                            printable(path)));
  }
  return {};
}

Result<Form> RewrittenOutput::form(const InputGraph& input,
                                   const TensorFlowOptions& options) const {
  const Form form = form_called(format).value_or(form_of_suffix(path).value_or(form_of(input)));
  if (!is_tensorflow(form)) {
    if (auto ok = options.check_not_writing("an .ebb text"); !ok) return fail(ok.error());
  }
  return form;
}

RewriterOptions RewrittenOutput::rewriting() const {
  RewriterOptions options;
  if (dump_after.empty()) return options;
  options.after_each = [](const Graph& graph, const Decision& decision) {
    write_to_stderr(fmt::format("# after: {}\n{}", to_text(graph, decision), print(graph)));
  };
  return options;
}

}  // namespace ebb::tool

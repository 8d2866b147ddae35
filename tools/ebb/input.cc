#include "input.h"

#include <fmt/format.h>

#include "ebb/base/file.h"
#include "ebb/graph/verify.h"
#include "progress.h"

namespace ebb::tool {

std::string shown_name(const std::string& path) {
  return path == "-" ? "standard input" : printable(path);
}

Error in_file(Error error, const std::string& path) {
  error.kind = ErrorKind::kBadInput;
  error.message = error.render(shown_name(path));
  error.code.clear();
  error.place = {};
  return error;
}

Result<ParsedGraph> read_graph_text(const std::string& path) {
  if (path.ends_with(".pb") || path.ends_with(".pbtxt")) {
    return fail(ErrorKind::kBadInput,
                fmt::format("{}: this version of ebb reads .ebb texts only", path));
  }
  const Progress progress("reading");
  const auto text = read_file(path);
  if (!text) return fail(text.error());
  auto parsed = parse(*text);
  if (!parsed) return fail(in_file(parsed.error(), path));
  return parsed;
}

Result<Graph> read_graph(const std::string& path) {
  auto parsed = read_graph_text(path);
  if (!parsed) return fail(parsed.error());
  const Progress progress("checking");
  if (const auto found = find_violations(parsed->graph, 1); !found.empty()) {
    return fail(in_file(as_error(found.front(), *parsed), path));
  }
  return std::move(parsed->graph);
}

}  // namespace ebb::tool

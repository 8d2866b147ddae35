#include "ebb/rewrite/plan_file.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "ebb/base/hash_index.h"
#include "ebb/graph/print.h"
#include "ebb/graph/text_names.h"

namespace ebb {
namespace {

constexpr std::string_view kHeader = "ebb plan ";
constexpr int kVersion = 1;

tl::unexpected<Error> bad_line(int line, std::string_view code, std::string message) {
  return fail(Error{.kind = ErrorKind::kBadInput,
                    .code = std::string(code),
                    .message = std::move(message),
                    .place = {.line = line}});
}

// Without comment, surrounding blanks and a carriage return. '#' inside quotes belongs to a name.
std::string_view content(std::string_view line) {
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (quoted && line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == '#' && !quoted) {
      line = line.substr(0, i);
    }
  }
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t first = line.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(kBlanks) - first + 1);
}

// Whether the line is the word and something after it, which `rest` then is.
bool begins_with(std::string_view line, std::string_view word, std::string_view& rest) {
  if (!line.starts_with(word)) return false;
  line.remove_prefix(word.size());
  if (!line.empty() && line[0] != ' ' && line[0] != '\t') return false;
  rest = content(line);
  return true;
}

std::optional<std::uint64_t> parse_fingerprint(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (text.size() != 16 || problem != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return number;
}

Result<bool> take_bytes(std::string_view what, std::string_view text, int number,
                        std::optional<Bytes>& out) {
  if (out) return bad_line(number, "L04", fmt::format("'{}' is given twice; remove one", what));
  const auto bytes = parse_bytes(text);
  if (!bytes) return bad_line(number, "L04", bytes.error().message);
  out = *bytes;
  return true;
}

Result<bool> take_duration(std::string_view what, std::string_view text, int number,
                           std::optional<Duration>& out) {
  if (out) return bad_line(number, "L04", fmt::format("'{}' is given twice; remove one", what));
  const auto duration = parse_duration(text);
  if (!duration) return bad_line(number, "L04", duration.error().message);
  out = *duration;
  return true;
}

// "%h.back 4KiB": a name and where it lies.
Result<bool> take_offset(std::string_view text, int number, std::vector<PlanFile::Offset>& out) {
  const std::size_t blank = text.find_last_of(" \t");
  const auto at = blank == std::string_view::npos ? fail(ErrorKind::kBadInput, "no offset")
                                                  : parse_bytes(text.substr(blank + 1));
  if (!at) {
    return bad_line(number, "L06", "expected a name and a number of bytes, as 'at %h 4KiB'");
  }
  out.push_back({.name = std::string(content(text.substr(0, blank))), .at = *at, .number = number});
  return true;
}

// What may stand below the decisions.
Result<bool> take_prediction(PlanFile& plan, std::string_view line, int number) {
  std::string_view rest;
  if (begins_with(line, "peak", rest)) return take_bytes("peak", rest, number, plan.peak);
  if (begins_with(line, "host", rest)) return take_bytes("host", rest, number, plan.host);
  if (begins_with(line, "step", rest)) return take_duration("step", rest, number, plan.step);
  if (begins_with(line, "unconstrained", rest)) {
    return take_duration("unconstrained", rest, number, plan.unconstrained);
  }
  if (begins_with(line, "at", rest) && rest.starts_with('%')) {
    return take_offset(rest.substr(1), number, plan.tensors);
  }
  if (begins_with(line, "workspace", rest)) return take_offset(rest, number, plan.workspaces);
  return false;
}

// What may stand above the decisions, each once.
class HeadReader {
 public:
  explicit HeadReader(PlanFile& plan) : plan_(plan) {}

  // Whether the line belongs to the head.
  Result<bool> take(std::string_view line, int number) {
    std::string_view rest;
    if (!seen_version_) {
      if (!begins_with(line, "ebb plan", rest)) {
        return bad_line(number, "L01", "this is no plan; a plan begins with 'ebb plan 1'");
      }
      if (rest != std::to_string(kVersion)) {
        return bad_line(number, "L02",
                        fmt::format("a plan of version '{}'; this program reads version {}, "
                                    "so make the plan again",
                                    rest, kVersion));
      }
      seen_version_ = true;
      return true;
    }
    if (!seen_graph_) {
      const auto found = begins_with(line, "graph", rest) ? parse_fingerprint(rest) : std::nullopt;
      if (!found) {
        return bad_line(number, "L03",
                        "expected the fingerprint of a graph, as 'graph 8f14e45fceea167a'");
      }
      plan_.fingerprint = *found;
      seen_graph_ = true;
      return true;
    }
    if (!plan_.decisions.empty()) return false;
    if (begins_with(line, "device", rest)) return take_device(rest, number);
    if (begins_with(line, "budget", rest)) return take_bytes("budget", rest, number, plan_.budget);
    if (begins_with(line, "host_budget", rest)) {
      return take_bytes("host_budget", rest, number, plan_.host_budget);
    }
    return false;
  }

  [[nodiscard]] Status finish(int lines) const {
    if (seen_graph_) return {};
    if (!seen_version_) {
      return bad_line(lines, "L01", "the plan is empty; a plan begins with 'ebb plan 1'");
    }
    return bad_line(lines, "L03", "the plan ends before it names its graph; get the whole file");
  }

 private:
  Result<bool> take_device(std::string_view name, int number) {
    if (!plan_.device.empty())
      return bad_line(number, "L04", "the device is given twice; remove one");
    if (name.empty()) return bad_line(number, "L04", "'device' names no device");
    plan_.device = name;
    return true;
  }

  PlanFile& plan_;
  bool seen_version_ = false;
  bool seen_graph_ = false;
};

}  // namespace

std::uint64_t fingerprint(const Graph& graph) { return hash_bytes(print(graph, {.notes = false})); }

PlanFile plan_of(const Graph& original, const Graph& rewritten,
                 std::span<const JournalEntry> journal) {
  PlanFile plan;
  plan.fingerprint = fingerprint(original);
  for (const JournalEntry& entry : journal) {
    // Names never change, so each decision reads as it did when it was applied.
    plan.decisions.push_back({.text = to_text(rewritten, entry.decision), .number = 0});
  }
  return plan;
}

std::string to_text(const PlanFile& plan) {
  std::string out = fmt::format("{}{}\ngraph {:016x}\n", kHeader, kVersion, plan.fingerprint);
  if (!plan.device.empty()) out += fmt::format("device {}\n", plan.device);
  const auto add = [&](std::string_view what, const auto& value) {
    if (value) out += fmt::format("{} {}\n", what, to_text(*value));
  };
  add("budget", plan.budget);
  add("host_budget", plan.host_budget);
  for (const PlanFile::Line& line : plan.decisions) out += fmt::format("{}\n", line.text);
  add("peak", plan.peak);
  add("host", plan.host);
  add("step", plan.step);
  add("unconstrained", plan.unconstrained);
  for (const PlanFile::Offset& it : plan.tensors) {
    out += fmt::format("at %{} {}\n", it.name, to_text(it.at));
  }
  for (const PlanFile::Offset& it : plan.workspaces) {
    out += fmt::format("workspace {} {}\n", it.name, to_text(it.at));
  }
  return out + "end\n";
}

Result<PlanFile> parse_plan(std::string_view text) {
  PlanFile plan;
  HeadReader head(plan);
  int number = 0;
  bool has_ended = false;
  bool has_prediction = false;
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  while (!text.empty()) {
    ++number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = content(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    if (has_ended) return bad_line(number, "L03", "the plan has ended above, with 'end'");
    has_ended = line == "end";
    if (has_ended) continue;
    const auto taken = head.take(line, number);
    if (!taken) return fail(taken.error());
    if (*taken) continue;
    const auto predicted = take_prediction(plan, line, number);
    if (!predicted) return fail(predicted.error());
    if (!*predicted && has_prediction) {
      return bad_line(number, "L06",
                      "expected more of what the plan predicts; decisions stand above that");
    }
    has_prediction = *predicted;
    if (!*predicted) plan.decisions.push_back({.text = std::string(line), .number = number});
  }
  if (Status whole = head.finish(number); !whole) return fail(whole.error());
  if (!has_ended) {
    return bad_line(number, "L03", "the plan ends without the line 'end'; get the whole file");
  }
  return plan;
}

Result<Applied> apply_plan(const Graph& graph, const PlanFile& plan,
                           const RewriterOptions& options) {
  if (const std::uint64_t found = fingerprint(graph); found != plan.fingerprint) {
    return fail(Error{
        .kind = ErrorKind::kBadInput,
        .code = "L05",
        .message = fmt::format("the plan was made for another graph ({:016x}, and this one is "
                               "{:016x}); make a plan for this graph",
                               plan.fingerprint, found),
        .place = {}});
  }
  Applied applied{.graph = graph, .decisions = plan.decisions.size(), .proof = {}};
  Rewriter rewriter(applied.graph, options);
  for (const PlanFile::Line& line : plan.decisions) {
    const auto at_line = [&](Error error) {
      error.kind = ErrorKind::kBadInput;
      error.place.line = line.number;
      return error;
    };
    const auto decision = parse_decision(applied.graph, line.text);
    if (!decision) return fail(at_line(decision.error()));
    if (Status done = rewriter.apply(*decision); !done) return fail(at_line(done.error()));
  }
  rewriter.settle();
  applied.proof = prove_rewrite(graph, applied.graph);
  return applied;
}

}  // namespace ebb

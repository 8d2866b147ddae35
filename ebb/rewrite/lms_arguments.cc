#include "ebb/rewrite/lms_arguments.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ebb {
namespace {

// Hands every parameter that is not the default to a writer, in the order of the paper's table.
template <class Writer>
void write_arguments(const LmsOptions& options, Writer& writer) {
  const LmsOptions usual;
  const auto list = [&](std::string_view name, const std::vector<std::string>& values) {
    if (!values.empty()) writer.list(name, values);
  };
  const auto text = [&](std::string_view name, const std::string& value, const std::string& other) {
    if (value != other) writer.text(name, value);
  };
  const auto number = [&](std::string_view name, std::int64_t value, std::int64_t other) {
    if (value != other) writer.number(name, value);
  };
  const auto flag = [&](std::string_view name, bool value) {
    if (value) writer.flag(name);
  };
  list("optimizer_scopes", options.optimizer_scopes);
  text("starting_scope", options.starting_scope, usual.starting_scope);
  list("starting_op_names", options.starting_op_names);
  list("excl_scopes", options.excl_scopes);
  list("incl_scopes", options.incl_scopes);
  list("excl_types", options.excl_types);
  list("incl_types", options.incl_types);
  writer.number("n_tensors", options.n_tensors);
  writer.number("lb", options.lb);
  number("ub", options.ub, usual.ub);
  text("ctrld_strategy", options.ctrld_strategy, usual.ctrld_strategy);
  flag("fuse_swapins", options.fuse_swapins);
  flag("swap_branches", options.swap_branches);
  // What refines another parameter says nothing without it, and is wrong usage then.
  if (options.swap_branches) {
    number("branch_threshold", options.branch_threshold, usual.branch_threshold);
  }
  if (options.fuse_swapins) number("fuse_distance", options.fuse_distance, usual.fuse_distance);
  flag("whole_graph", options.whole_graph);
  if (options.whole_graph) number("alpha", options.alpha, usual.alpha);
  text("codec", options.codec, usual.codec);
  if (!options.codec.empty()) flag("codec_on_host", options.codec_on_host);
  list("recompute_types", options.recompute_types);
  number("sync", options.sync, usual.sync);
  if (options.min_bytes != usual.min_bytes) writer.text("min_bytes", to_text(options.min_bytes));
}

class CommandLine {
 public:
  void flag(std::string_view name) {
    out_ += out_.empty() ? "--" : " --";
    out_ += name;
    std::replace(out_.end() - static_cast<std::ptrdiff_t>(name.size()), out_.end(), '_', '-');
  }
  void number(std::string_view name, std::int64_t value) {
    flag(name);
    out_ += fmt::format(" {}", value);
  }
  void text(std::string_view name, const std::string& value) {
    flag(name);
    out_ += ' ' + quoted(value);
  }
  void list(std::string_view name, const std::vector<std::string>& values) {
    text(name, fmt::format("{}", fmt::join(values, ",")));
  }
  [[nodiscard]] const std::string& out() const { return out_; }

 private:
  static std::string quoted(const std::string& value) {
    constexpr std::string_view kHarmless =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:,+@%";
    if (value.find_first_not_of(kHarmless) == std::string::npos) return value;
    std::string out = "'";
    for (const char c : value) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
  }

  std::string out_;
};

class PythonCall {
 public:
  void flag(std::string_view name) { add(name, "True"); }
  void number(std::string_view name, std::int64_t value) { add(name, fmt::format("{}", value)); }
  void text(std::string_view name, const std::string& value) { add(name, quoted(value)); }
  void list(std::string_view name, const std::vector<std::string>& values) {
    std::string all;
    for (const std::string& value : values) all += (all.empty() ? "" : ", ") + quoted(value);
    add(name, "{" + all + "}");
  }
  [[nodiscard]] const std::string& out() const { return out_; }

 private:
  // A string of JSON is one of Python.
  static std::string quoted(const std::string& value) {
    using Json = nlohmann::json;
    return Json(value).dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  void add(std::string_view name, std::string_view value) {
    out_ += fmt::format("{}{}={}", out_.empty() ? "" : ", ", name, value);
  }

  std::string out_;
};

}  // namespace

std::string command_line_arguments(const LmsOptions& options) {
  CommandLine arguments;
  write_arguments(options, arguments);
  return arguments.out();
}

std::optional<std::string> python_arguments(const LmsOptions& options) {
  if (!options.codec.empty()) return std::nullopt;
  PythonCall arguments;
  write_arguments(options, arguments);
  return arguments.out();
}

}  // namespace ebb

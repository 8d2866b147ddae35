#include "scalar_values.h"

#include <cctype>
#include <charconv>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "ebb/base/nearest.h"
#include "ebb/graph/text_names.h"

namespace ebb::tool {
namespace {

constexpr std::string_view kLater = "scalar.";
constexpr std::string_view kFirst = "first.";

tl::unexpected<Error> wrong_usage(std::string message) {
  return fail(ErrorKind::kUsage, std::move(message));
}

std::vector<ScalarId> declared_scalars(const Graph& graph) {
  std::vector<ScalarId> declared;
  for (const NodeId node : graph.order()) {
    if (graph.kind(node) == NodeKind::kScalar) declared.push_back(graph.scalar_result(node));
  }
  return declared;
}

template <class Number, class... Format>
bool reads_as(std::string_view text, Number& number, Format... format) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  const auto [stopped, error] = std::from_chars(begin, end, number, format...);
  return error == std::errc() && stopped == end;
}

bool is_hex_digit(char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; }

// The declared scalar that a name of the command line means.
Result<ScalarId> find_declared(const Graph& graph, const std::vector<ScalarId>& declared,
                               std::string_view name) {
  const ScalarId scalar = graph.find_scalar(name);
  if (scalar.valid()) {
    if (graph.kind(graph.producer(scalar)) == NodeKind::kScalar) return scalar;
    return wrong_usage(
        fmt::format("--scalar {}: the step computes this one itself", printable(name)));
  }
  NearestWord nearest(name);
  for (const ScalarId known : declared) nearest.offer(graph.name(known));
  std::string message = fmt::format("--scalar {}: the step has no such scalar", printable(name));
  if (!nearest.word().empty()) message += fmt::format("; did you mean {}?", nearest.word());
  return wrong_usage(std::move(message));
}

Result<NamedNumbers> read_given(const Graph& graph, const std::vector<ScalarId>& declared,
                                const std::vector<std::string>& given) {
  NamedNumbers values;
  for (const std::string& argument : given) {
    const std::size_t equals = argument.rfind('=');
    if (equals == std::string::npos) {
      return wrong_usage(fmt::format("--scalar {}: write NAME=VALUE", printable(argument)));
    }
    const std::string name = argument.substr(0, equals);
    const auto scalar = find_declared(graph, declared, name);
    if (!scalar) return fail(scalar.error());
    const auto number = parse_number(std::string_view(argument).substr(equals + 1));
    if (!number) {
      return wrong_usage(fmt::format("--scalar {}: {}", printable(name), number.error().message));
    }
    const auto value = exec::convert(*number, graph.dtype(*scalar));
    if (!value) {
      return wrong_usage(fmt::format("--scalar {}: {}", printable(name), value.error().message));
    }
    if (!values.emplace(name, *value).second) {
      return wrong_usage(fmt::format("--scalar {} is given twice", printable(name)));
    }
  }
  return values;
}

// What the file says of a scalar; nothing when it says nothing.
Result<std::optional<exec::Number>> read_from(const Metadata& metadata, const std::string& key,
                                              DType dtype, const std::string& file) {
  const auto entry = metadata.find(key);
  if (entry == metadata.end()) return std::optional<exec::Number>();
  const auto number = parse_number(entry->second);
  const auto value = number ? exec::convert(*number, dtype) : number;
  if (!value) {
    return fail(ErrorKind::kBadInput,
                fmt::format("{}: {}: {}", file, printable(key), value.error().message));
  }
  return std::optional(*value);
}

}  // namespace

Result<exec::Number> parse_number(std::string_view text) {
  if (text == "true" || text == "false") return exec::Number(text == "true");
  if (std::int64_t integer = 0; reads_as(text, integer)) return exec::Number(integer);
  double real = 0;
  if (reads_as(text, real)) return exec::Number(real);
  std::string_view digits = text;
  const bool negative = digits.starts_with('-');
  if (negative) digits.remove_prefix(1);
  if (digits.size() > 2 && digits.starts_with("0x") && is_hex_digit(digits[2]) &&
      reads_as(digits.substr(2), real, std::chars_format::hex)) {
    return exec::Number(negative ? -real : real);
  }
  return fail(ErrorKind::kBadInput, fmt::format("'{}' is no number", printable(text)));
}

std::string exact_text(const exec::Number& number) {
  if (const auto* real = std::get_if<double>(&number)) return fmt::format("{:a}", *real);
  return exec::to_text(number);
}

Result<ScalarValues> scalar_values(const Graph& graph, const Metadata& metadata,
                                   const std::vector<std::string>& given, const std::string& file) {
  const std::vector<ScalarId> declared = declared_scalars(graph);
  const auto overrides = read_given(graph, declared, given);
  if (!overrides) return fail(overrides.error());
  ScalarValues values;
  std::vector<std::string_view> missing;
  for (const ScalarId scalar : declared) {
    const std::string name(graph.name(scalar));
    if (const auto found = overrides->find(name); found != overrides->end()) {
      values.first[name] = values.later[name] = found->second;
      continue;
    }
    const auto later = read_from(metadata, std::string(kLater) + name, graph.dtype(scalar), file);
    if (!later) return fail(later.error());
    const auto first = read_from(metadata, std::string(kFirst) + name, graph.dtype(scalar), file);
    if (!first) return fail(first.error());
    if (!*later) {
      missing.push_back(graph.name(scalar));
      continue;
    }
    values.later[name] = **later;
    values.first[name] = first->value_or(**later);
  }
  if (missing.empty()) return values;
  const std::string more =
      missing.size() == 1 ? "" : fmt::format(" (nor for {} more)", missing.size() - 1);
  return wrong_usage(
      fmt::format("{} has no value for ${}, which the step needs{}: --scalar "
                  "{}=VALUE",
                  file, spelled(missing[0]), more, printable(missing[0])));
}

Metadata scalar_metadata(const NamedNumbers& values) {
  Metadata metadata;
  for (const auto& [name, value] : values) {
    metadata[std::string(kLater) + name] = exact_text(value);
  }
  return metadata;
}

}  // namespace ebb::tool

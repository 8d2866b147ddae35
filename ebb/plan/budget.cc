#include "ebb/plan/budget.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <fmt/format.h>

#include "ebb/order/liveness.h"

namespace ebb {
namespace {

constexpr Bytes kLargest{std::int64_t{1} << 60};
constexpr std::string_view kForms = "cannot be read; write one like 16GiB, 1.5GB or 60%";
constexpr std::string_view kTooMuch = "is more than any machine has";

tl::unexpected<Error> wrong(std::string_view text, std::string_view why) {
  return fail(ErrorKind::kUsage, fmt::format("the budget '{}' {}", printable(text), why));
}

// Digits with at most one point: no sign, no exponent, no blanks.
std::optional<double> parse_decimal(std::string_view text) {
  double value = 0;
  const std::span<const char> all(text);
  const auto [rest, problem] =
      std::from_chars(all.data(), all.data() + all.size(), value, std::chars_format::fixed);
  const bool is_plain = text.find_first_not_of("0123456789.") == std::string_view::npos;
  if (problem != std::errc() || rest != all.data() + all.size() || !is_plain) return std::nullopt;
  return value;
}

// Why a size that parse_bytes does not take is none.
tl::unexpected<Error> wrong_size(std::string_view text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view unit = text.substr(end);
  const bool is_number = parse_decimal(text.substr(0, end)).has_value();
  if (is_number && unit.empty()) {
    return wrong(text, "has no unit; write one like 16GiB, 1.5GB or 60%");
  }
  if (is_number && parse_bytes(fmt::format("1{}", unit))) return wrong(text, kTooMuch);
  const bool is_word = std::ranges::all_of(
      unit, [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
  if (is_number && is_word) {
    return wrong(text,
                 fmt::format("has an unknown unit, '{}'; there are B, KiB, MiB, GiB, TiB, KB, "
                             "MB, GB, TB and %",
                             unit));
  }
  return wrong(text, kForms);
}

}  // namespace

Result<Bytes> parse_budget(std::string_view text, Bytes unconstrained) {
  if (text.starts_with('-')) return wrong(text, "is negative; give more than nothing");
  Bytes budget;
  if (text.ends_with('%')) {
    const auto percent = parse_decimal(text.substr(0, text.size() - 1));
    if (!percent) return wrong(text, kForms);
    if (unconstrained == Bytes{} && *percent > 0) {
      return wrong(text, "is a share of nothing: the step uses no memory of the device");
    }
    const double bytes = std::floor(*percent * static_cast<double>(unconstrained.count) / 100);
    if (bytes > static_cast<double>(kLargest.count)) return wrong(text, kTooMuch);
    budget = Bytes{static_cast<std::int64_t>(bytes)};
  } else {
    const auto parsed = parse_bytes(text);
    if (!parsed) return wrong_size(text);
    budget = *parsed;
  }
  if (budget == Bytes{}) return wrong(text, "is nothing; give at least what one operation needs");
  if (budget > kLargest) return wrong(text, kTooMuch);
  return budget;
}

std::string per_cent_for(Bytes bytes, Bytes unconstrained) {
  if (unconstrained <= Bytes{}) return "0.00";
  double hundredths =
      std::ceil(static_cast<double>(bytes.count) / static_cast<double>(unconstrained.count) * 1e4);
  for (;; ++hundredths) {  // once or twice: a product of doubles may be a byte short
    std::string text = fmt::format("{:.2f}", hundredths / 100);
    const auto budget = parse_budget(text + '%', unconstrained);
    if (!budget || *budget >= bytes) return text;
  }
}

Peak find_peak(const Graph& graph, const StepCosts& costs) {
  if (graph.order().empty()) return {};
  MemoryCurve curve = memory_curve(graph, find_lives(graph));
  Peak peak{.bytes = {}, .node = graph.order()[0], .host = curve.host_peak};
  for (std::size_t i = 0; i < curve.device.size(); ++i) {
    const NodeId node = graph.order()[i];
    if (!graph.runs_on_host(node)) {
      curve.device[i] += costs.workspace[node.index()] - graph.workspace(node);
    }
    if (curve.device[i] > peak.bytes) {
      peak.bytes = curve.device[i];
      peak.node = node;
    }
  }
  return peak;
}

}  // namespace ebb

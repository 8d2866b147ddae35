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

}  // namespace

Result<Bytes> parse_budget(std::string_view text, Bytes unconstrained) {
  constexpr std::string_view kForms = "cannot be read; write one like 16GiB, 1.5GB or 60%";
  if (text.starts_with('-')) return wrong(text, "is negative; give more than nothing");
  Bytes budget;
  if (text.ends_with('%')) {
    const auto percent = parse_decimal(text.substr(0, text.size() - 1));
    if (!percent) return wrong(text, kForms);
    if (unconstrained == Bytes{} && *percent > 0) {
      return wrong(text, "is a share of nothing: the step uses no memory of the device");
    }
    const double bytes = std::floor(*percent * static_cast<double>(unconstrained.count) / 100);
    if (bytes > static_cast<double>(kLargest.count)) {
      return wrong(text, "is more than any machine has");
    }
    budget = Bytes{static_cast<std::int64_t>(bytes)};
  } else {
    const auto parsed = parse_bytes(text);
    const bool is_number = parse_decimal(text).has_value();
    if (!parsed && is_number) return wrong(text, "has no unit; write one like 16GiB, 1.5GB or 60%");
    if (!parsed) return wrong(text, kForms);
    budget = *parsed;
  }
  if (budget == Bytes{}) return wrong(text, "is nothing; give at least what one operation needs");
  if (budget > kLargest) return wrong(text, "is more than any machine has");
  return budget;
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

#include "ebb/base/units.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include <fmt/format.h>

namespace ebb {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t factor;
};

constexpr std::int64_t kKi = 1024;
constexpr std::array kByteUnits = {
    Unit{"B", 1},
    Unit{"KiB", kKi},
    Unit{"MiB", kKi * kKi},
    Unit{"GiB", kKi * kKi * kKi},
    Unit{"TiB", kKi * kKi * kKi * kKi},
    Unit{"KB", 1000},
    Unit{"MB", 1000 * 1000},
    Unit{"GB", 1000 * 1000 * 1000},
    Unit{"TB", 1000LL * 1000 * 1000 * 1000},
};
constexpr std::array kTimeUnits = {
    Unit{"ns", 1},
    Unit{"us", 1000},
    Unit{"ms", 1000 * 1000},
    Unit{"s", 1000 * 1000 * 1000},
};
constexpr std::size_t kBinaryByteUnits = 5;  // the first of kByteUnits

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Digits with at most one point among them.
bool is_decimal(std::string_view text) {
  return std::any_of(text.begin(), text.end(), is_digit) &&
         std::count(text.begin(), text.end(), '.') <= 1 &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_digit(c) || c == '.'; });
}

// The decimal number times `factor`, dropping what is less than one; nullopt when it does not fit.
// Exact, so that "0.1s" is 100000000 ns.
std::optional<std::int64_t> scaled(std::string_view decimal, std::int64_t factor) {
  __extension__ using Wide = __int128;
  constexpr Wide kMax = std::numeric_limits<std::int64_t>::max();
  constexpr Wide kFinest = 1'000'000'000'000'000'000;  // digits beyond are below any unit
  Wide value = 0;
  Wide denominator = 1;
  bool fraction = false;
  for (const char c : decimal) {
    if (c == '.') {
      fraction = true;
      continue;
    }
    if (fraction && denominator == kFinest) break;
    value = value * 10 + (c - '0');
    if (fraction) denominator *= 10;
    if (value / denominator > kMax) return std::nullopt;
  }
  // value < 2^63 * 10^18 < 2^123 and may not be multiplied by 2^40 at once.
  const Wide whole = value / denominator;
  const Wide rest = value % denominator;
  const Wide product = whole * factor + rest * factor / denominator;
  return product > kMax ? std::nullopt : std::optional(static_cast<std::int64_t>(product));
}

Result<std::int64_t> parse(std::string_view text, std::span<const Unit> units,
                           std::string_view what, std::string_view examples) {
  std::size_t end = 0;
  while (end < text.size() && (is_digit(text[end]) || text[end] == '.')) ++end;
  for (const Unit& unit : units) {
    if (text.substr(end) != unit.name || !is_decimal(text.substr(0, end))) continue;
    if (const auto value = scaled(text.substr(0, end), unit.factor)) return *value;
    return fail(ErrorKind::kUsage, fmt::format("'{}' is too large: {} has 63 bits", text, what));
  }
  const bool has_no_unit = end == text.size() && is_decimal(text);
  return fail(ErrorKind::kUsage,
              fmt::format("'{}' {}; write one like {}", text,
                          has_no_unit ? "has no unit" : fmt::format("is not {}", what), examples));
}

// 1234567 in units of 1000^k as "1.234567", exact.
std::string decimal(std::int64_t value, std::int64_t unit) {
  std::string out = fmt::format("{}", value / unit);
  std::int64_t rest = value % unit;
  if (rest == 0) return out;
  out += '.';
  while (rest > 0) {
    unit /= 10;
    out += static_cast<char>('0' + rest / unit);
    rest %= unit;
  }
  return out;
}

}  // namespace

Result<Bytes> parse_bytes(std::string_view text) {
  return parse(text, kByteUnits, "a number of bytes", "16GiB, 1.5MiB or 512B")
      .map([](std::int64_t count) { return Bytes{count}; });
}

Result<Duration> parse_duration(std::string_view text) {
  return parse(text, kTimeUnits, "a duration", "40us, 1.5ms or 2s").map([](std::int64_t count) {
    return Duration{count};
  });
}

Result<Bandwidth> parse_bandwidth(std::string_view text) {
  constexpr std::string_view kPerSecond = "/s";
  if (text.ends_with(kPerSecond)) {
    const auto bytes = parse_bytes(text.substr(0, text.size() - kPerSecond.size()));
    if (bytes) return Bandwidth{static_cast<double>(bytes->count)};
  }
  return fail(ErrorKind::kUsage,
              fmt::format("'{}' is not a bandwidth; write one like 55.1GB/s or 12GiB/s", text));
}

std::string to_text(Bytes bytes) {
  std::size_t unit = 0;
  while (unit + 1 < kBinaryByteUnits && bytes.count != 0 &&
         bytes.count % kByteUnits[unit + 1].factor == 0) {
    ++unit;
  }
  return fmt::format("{}{}", bytes.count / kByteUnits[unit].factor, kByteUnits[unit].name);
}

std::string to_text(Duration duration) {
  std::size_t unit = 0;
  while (unit + 1 < kTimeUnits.size() && duration.count() >= kTimeUnits[unit + 1].factor) ++unit;
  return decimal(duration.count(), kTimeUnits[unit].factor) + std::string(kTimeUnits[unit].name);
}

std::string to_text(Bandwidth bandwidth) {
  const auto count = static_cast<std::int64_t>(bandwidth.bytes_per_second);
  const Unit* unit = kByteUnits.data();
  for (const Unit& each : std::span(kByteUnits).subspan(kBinaryByteUnits)) {
    if (count >= each.factor) unit = &each;
  }
  return fmt::format("{}{}/s", decimal(count, unit->factor), unit->name);
}

std::string to_human(Bytes bytes) {
  const double magnitude = std::abs(static_cast<double>(bytes.count));
  std::size_t unit = 0;
  while (unit + 1 < kBinaryByteUnits &&
         magnitude >= static_cast<double>(kByteUnits[unit + 1].factor)) {
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes.count);
  const double value =
      static_cast<double>(bytes.count) / static_cast<double>(kByteUnits[unit].factor);
  return fmt::format("{:.{}f} {}", value, std::abs(value) < 100 ? 1 : 0, kByteUnits[unit].name);
}

std::string to_human(Duration duration) {
  std::size_t unit = 0;
  while (unit + 1 < kTimeUnits.size() && duration.count() >= kTimeUnits[unit + 1].factor) ++unit;
  if (unit == 0) return fmt::format("{} ns", duration.count());
  const double value =
      static_cast<double>(duration.count()) / static_cast<double>(kTimeUnits[unit].factor);
  return fmt::format("{:.{}f} {}", value, value < 100 ? 1 : 0, kTimeUnits[unit].name);
}

std::string to_human(Bandwidth bandwidth) {
  return fmt::format("{:.1f} GB/s", bandwidth.bytes_per_second / 1e9);
}

}  // namespace ebb

// Bytes, durations and bandwidths, as people write them and as files keep them.
//
// `to_text` is exact and parses back to the same value ("1536KiB", "1.5us"); `to_human` is rounded
// for people ("1.5 MiB").
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "ebb/base/result.h"

namespace ebb {

// A number of bytes. Signed, so that differences are bytes too.
struct Bytes {
  std::int64_t count = 0;

  constexpr Bytes& operator+=(Bytes other) {
    count += other.count;
    return *this;
  }
  constexpr Bytes& operator-=(Bytes other) {
    count -= other.count;
    return *this;
  }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes{a.count + b.count}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return Bytes{a.count - b.count}; }
  friend constexpr auto operator<=>(Bytes, Bytes) = default;
};

using Duration = std::chrono::nanoseconds;

struct Bandwidth {
  double bytes_per_second = 0;
  friend constexpr auto operator<=>(Bandwidth, Bandwidth) = default;
};

// "512B", "1.5GiB" (powers of 1024), "16GB" (powers of 1000). A unit is required; fractions of a
// byte are dropped.
[[nodiscard]] Result<Bytes> parse_bytes(std::string_view text);
// "250ns", "40us", "1.5ms", "2s". Fractions of a nanosecond are dropped.
[[nodiscard]] Result<Duration> parse_duration(std::string_view text);
// "55.1GB/s", "12GiB/s".
[[nodiscard]] Result<Bandwidth> parse_bandwidth(std::string_view text);

std::string to_text(Bytes bytes);
std::string to_text(Duration duration);
std::string to_text(Bandwidth bandwidth);  // in whole bytes per second, below 2^53 of them

std::string to_human(Bytes bytes);
std::string to_human(Duration duration);
std::string to_human(Bandwidth bandwidth);

}  // namespace ebb

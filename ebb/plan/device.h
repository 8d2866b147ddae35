// What a device can do, in the numbers that costs are made of: a device file, or one that Ebb
// knows.
//
//   const Device device = find_device("h200").value();     // or "my-gpu.json"
//   copy_time(device.link, Bytes{1 << 30}, CopyDirection::kToHost)
//
// The link is two engines, one each way, that copy one thing at a time. A copy takes
//
//   max(shortest, latency + bytes / bandwidth),
//
// with the smaller bandwidth of that direction while the other one is busy. A device file is JSON;
// docs/planning.md has its keys, and the folder devices/ examples. What kernels make of the other
// numbers is said in roofline.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/base/units.h"

namespace ebb {

enum class CopyDirection : std::uint8_t { kToHost, kToDevice };

struct Link {
  Bandwidth to_host;
  Bandwidth to_device;
  Bandwidth to_host_both;  // while a copy goes the other way
  Bandwidth to_device_both;
  Duration latency{0};   // before the first byte
  Duration shortest{0};  // no copy takes less, however small

  friend bool operator==(const Link&, const Link&) = default;
};

// In whole nanoseconds, rounded up; apart from `shortest` at most 2^53, whatever the numbers are.
Duration copy_time(const Link& link, Bytes bytes, CopyDirection direction,
                   bool is_other_way_busy = false);

// Operations per second; a multiplication and an addition are two.
struct FlopRates {
  double f32 = 0;              // elementwise, and all that has no rate of its own below
  double f32_matmul = 0;       // as frameworks compute matrix products of f32 unless told otherwise
  double f32_convolution = 0;  // the same for convolutions: TF32 where there is TF32
  double f64 = 0;
  double f16 = 0;
  double bf16 = 0;
  double int8 = 0;

  friend bool operator==(const FlopRates&, const FlopRates&) = default;
};

// The share of the peak that kernels reach on large tensors, in (0, 1].
struct Efficiency {
  double matmul = 0.8;
  double convolution = 0.6;
  double attention = 0.5;
  double memory = 0.8;  // of the memory bandwidth

  friend bool operator==(const Efficiency&, const Efficiency&) = default;
};

// How convolution kernels want their images. Where it is channels last and a tensor is not, it is
// copied to that layout before, or from it after.
enum class ConvolutionLayout : std::uint8_t { kAny, kChannelsLast };

struct Device {
  std::string name;
  std::string note;  // where the numbers are from
  Bytes memory;
  Bandwidth memory_bandwidth;
  FlopRates flops;
  Efficiency efficiency;
  ConvolutionLayout convolution_layout = ConvolutionLayout::kAny;
  Duration launch{5000};  // that each operation takes beyond its work
  Bytes alignment{512};   // of what is allocated; a power of two
  Link link;

  friend bool operator==(const Device&, const Device&) = default;
};

// Of the text of a device file. kBadInput names the key and the value, and for a key that there is
// not, the nearest that there is. Numbers that no machine has are refused.
[[nodiscard]] Result<Device> parse_device(std::string_view json);
// A device file that parses back to the same device.
std::string to_json(const Device& device);

// Of the link alone: the object under "link" in a device file, on one line.
[[nodiscard]] Result<Link> parse_link(std::string_view json);
std::string to_json(const Link& link);

// Those that Ebb brings along, in the order of their names: the files in devices/.
std::vector<std::string_view> device_names();
// One of these, or the file of that name. kUsage: it is neither.
[[nodiscard]] Result<Device> find_device(const std::string& name_or_path);

}  // namespace ebb

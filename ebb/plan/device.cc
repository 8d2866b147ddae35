#include "ebb/plan/device.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ebb/base/file.h"
#include "ebb/base/nearest.h"
#include "ebb/plan/json_input.h"

namespace ebb {
namespace {

struct DeviceFile {
  std::string_view name;
  std::string_view json;
};
constexpr std::array kDeviceFiles = {
#include "ebb/plan/device_files.inc"
};

constexpr std::string_view kFlopSuffix = "FLOP/s";
constexpr std::string_view kAnyLayout = "any";
constexpr std::string_view kChannelsLast = "channels_last";

// What is outside was mistyped.
constexpr double kSlowestLink = 1e6;  // bytes per second
constexpr double kFastestLink = 1e15;
constexpr double kFewestFlops = 1e6;  // per second
constexpr double kMostFlops = 1e18;
constexpr double kLeastEfficiency = 0.01;
constexpr Duration kLongestLaunch = std::chrono::seconds(1);
constexpr Bytes kLeastMemory{1024};
constexpr Bytes kMostMemory{1'000'000'000'000'000};
constexpr Bytes kLargestAlignment{std::int64_t{1} << 21};

// "788TFLOP/s": the number and the letter are those of bytes.
Result<double> parse_flops(std::string_view text) {
  if (text.ends_with(kFlopSuffix) && text.find('i') == std::string_view::npos) {
    const auto count =
        parse_bytes(fmt::format("{}B", text.substr(0, text.size() - kFlopSuffix.size())));
    if (count) return static_cast<double>(count->count);
  }
  return fail(ErrorKind::kUsage,
              fmt::format("'{}' is not a rate of arithmetic; write one like 67TFLOP/s", text));
}

std::string flops_text(double rate) {
  std::string text = to_text(Bandwidth{rate});
  return text.substr(0, text.size() - std::string_view("B/s").size()) + std::string(kFlopSuffix);
}

// Reads the values of one object, each into its place. The first thing that is wrong stays; after
// it nothing is read.
class ObjectReader {
 public:
  ObjectReader(const Json& object, std::string name, Status& status)
      : object_(object), name_(std::move(name)), status_(status) {}

  void check(std::span<const std::string_view> known) {
    if (status_) status_ = check_keys(object_, name_.empty() ? "a device" : name_, known);
  }
  [[nodiscard]] bool has(std::string_view key) const { return object_.contains(key); }

  void text(std::string_view key, std::string& out) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (value->is_string()) {
      out = value->get<std::string>();
    } else {
      refuse(key, "is not a text");
    }
  }
  void bandwidth(std::string_view key, Bandwidth& out) {
    measured(key, parse_bandwidth, "a text like \"55.1GB/s\"", out);
    if (!status_ || !has(key)) return;
    if (out.bytes_per_second < kSlowestLink || out.bytes_per_second > kFastestLink)
      refuse(key, "is no bandwidth of this world: from 1MB/s to 1000TB/s is");
  }
  void flops(std::string_view key, double& out) {
    measured(key, parse_flops, "a text like \"67TFLOP/s\"", out);
    if (!status_ || !has(key)) return;
    if (out < kFewestFlops || out > kMostFlops)
      refuse(key, "is no rate of this world: from 1MFLOP/s to 1000000TFLOP/s is");
  }
  void duration(std::string_view key, Duration& out) {
    measured(key, parse_duration, "a text like \"5us\"", out);
    if (status_ && has(key) && out > kLongestLaunch) refuse(key, "is more than a second");
  }
  void memory(std::string_view key, Bytes& out) {
    measured(key, parse_bytes, "a text like \"141GB\"", out);
    if (!status_ || !has(key)) return;
    if (out < kLeastMemory || out > kMostMemory)
      refuse(key, "is no memory of a device: from 1KiB to 1000TB is");
  }
  void alignment(std::string_view key, Bytes& out) {
    measured(key, parse_bytes, "a text like \"512B\"", out);
    if (!status_ || !has(key)) return;
    if (out.count < 1 || out > kLargestAlignment ||
        !std::has_single_bit(static_cast<std::uint64_t>(out.count)))
      refuse(key, "is no power of two from 1B to 2MiB");
  }
  void share(std::string_view key, double& out) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_number()) {
      refuse(key, "is not a number like 0.8");
      return;
    }
    out = value->get<double>();
    if (!(out >= kLeastEfficiency && out <= 1)) refuse(key, "is not from 0.01 to 1");
  }
  // The other way at the same time costs; it never gives.
  void at_most(std::string_view key, Bandwidth value, std::string_view alone_key, Bandwidth alone) {
    if (status_ && value > alone)
      refuse(key, fmt::format("is more than '{}', the same with the link for itself", alone_key));
  }
  void require(std::string_view key) {
    if (status_ && !has(key)) fail_with(fmt::format("'{}' is missing", full(key)));
  }
  // The object under the key; an empty one when it is not there.
  ObjectReader child(std::string_view key) {
    static const Json kEmpty = Json::object();
    const Json* value = find(key);
    if (value != nullptr && !value->is_object()) {
      refuse(key, "is not an object");
      value = nullptr;
    }
    return {value == nullptr ? kEmpty : *value, full(key), status_};
  }
  void layout(std::string_view key, ConvolutionLayout& out) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (*value == kAnyLayout) {
      out = ConvolutionLayout::kAny;
    } else if (*value == kChannelsLast) {
      out = ConvolutionLayout::kChannelsLast;
    } else {
      refuse(key, R"(is neither "any" nor "channels_last")");
    }
  }
  // One text, or one for each line.
  void lines(std::string_view key, std::string& out) {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_array()) {
      text(key, out);
      return;
    }
    for (const Json& line : *value) {
      if (!line.is_string()) {
        refuse(key, "has a line that is not a text");
        return;
      }
      if (!out.empty()) out += '\n';
      out += line.get<std::string>();
    }
  }

 private:
  [[nodiscard]] std::string full(std::string_view key) const {
    return name_.empty() ? std::string(key) : fmt::format("{}.{}", name_, key);
  }
  [[nodiscard]] const Json* find(std::string_view key) const {
    if (!status_) return nullptr;
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }
  void fail_with(std::string message) { status_ = fail(ErrorKind::kBadInput, std::move(message)); }
  void refuse(std::string_view key, std::string_view why) {
    fail_with(fmt::format("'{}' {}: {}", full(key), why, shown(object_.at(std::string(key)))));
  }
  template <class T>
  void measured(std::string_view key, Result<T> (*parse)(std::string_view), std::string_view like,
                T& out) {
    const Json* value = find(key);
    if (value == nullptr) return;
    const auto* text = value->template get_ptr<const std::string*>();
    const auto parsed = parse(text == nullptr ? std::string_view() : std::string_view(*text));
    if (parsed) {
      out = *parsed;
    } else {
      refuse(key, fmt::format("is not {}", like));
    }
  }

  const Json& object_;
  std::string name_;  // "link"; empty for the whole file
  Status& status_;
};

void read_flops(ObjectReader object, FlopRates& rates) {
  object.check(std::array<std::string_view, 7>{"f32", "f32_matmul", "f32_convolution", "f64", "f16",
                                               "bf16", "int8"});
  object.require("f32");
  object.flops("f32", rates.f32);
  rates.f32_matmul = rates.f64 = rates.f16 = rates.bf16 = rates.int8 = rates.f32;
  object.flops("f32_matmul", rates.f32_matmul);
  rates.f32_convolution = rates.f32_matmul;
  object.flops("f32_convolution", rates.f32_convolution);
  object.flops("f64", rates.f64);
  object.flops("f16", rates.f16);
  object.flops("bf16", rates.bf16);
  object.flops("int8", rates.int8);
}

void read_efficiency(ObjectReader object, Efficiency& efficiency) {
  object.check(std::array<std::string_view, 4>{"matmul", "convolution", "attention", "memory"});
  object.share("matmul", efficiency.matmul);
  object.share("convolution", efficiency.convolution);
  object.share("attention", efficiency.attention);
  object.share("memory", efficiency.memory);
}

void read_link(ObjectReader object, Link& link) {
  object.check(std::array<std::string_view, 6>{"to_host", "to_device", "to_host_both",
                                               "to_device_both", "latency", "shortest"});
  object.require("to_host");
  object.require("to_device");
  object.bandwidth("to_host", link.to_host);
  object.bandwidth("to_device", link.to_device);
  link.to_host_both = link.to_host;
  link.to_device_both = link.to_device;
  object.bandwidth("to_host_both", link.to_host_both);
  object.bandwidth("to_device_both", link.to_device_both);
  object.at_most("to_host_both", link.to_host_both, "to_host", link.to_host);
  object.at_most("to_device_both", link.to_device_both, "to_device", link.to_device);
  object.duration("latency", link.latency);
  object.duration("shortest", link.shortest);
}

using Ordered = nlohmann::ordered_json;

Ordered link_object(const Link& link) {
  return {{"to_host", to_text(link.to_host)},
          {"to_device", to_text(link.to_device)},
          {"to_host_both", to_text(link.to_host_both)},
          {"to_device_both", to_text(link.to_device_both)},
          {"latency", to_text(link.latency)},
          {"shortest", to_text(link.shortest)}};
}

// Plans name their device, on a line of their own.
bool is_odd_in_name(char c) { return c == '#' || static_cast<unsigned char>(c) < ' ' || c == 127; }

}  // namespace

Duration copy_time(const Link& link, Bytes bytes, CopyDirection direction, bool is_other_way_busy) {
  constexpr double kLongest = 9007199254740992.0;  // 2^53 ns, a hundred days
  const Bandwidth bandwidth = direction == CopyDirection::kToHost
                                  ? (is_other_way_busy ? link.to_host_both : link.to_host)
                                  : (is_other_way_busy ? link.to_device_both : link.to_device);
  const double moving = static_cast<double>(bytes.count) * 1e9 / bandwidth.bytes_per_second;
  const double all = std::ceil(static_cast<double>(link.latency.count()) + moving);
  // Written so that what is no number is the longest.
  return std::max(
      link.shortest,
      Duration{static_cast<std::int64_t>(all < kLongest ? std::max(all, 0.0) : kLongest)});
}

Result<Device> parse_device(std::string_view json) {
  const auto root = read_json_object(json);
  if (!root) return fail(root.error());
  Status status;
  ObjectReader object(*root, "", status);
  object.check(std::array<std::string_view, 10>{"name", "note", "memory", "memory_bandwidth",
                                                "flops", "efficiency", "convolution_layout",
                                                "launch", "alignment", "link"});
  for (const std::string_view key : {"name", "memory", "memory_bandwidth", "flops", "link"}) {
    object.require(key);
  }
  Device device;
  object.text("name", device.name);
  if (const auto odd = std::find_if(device.name.begin(), device.name.end(), is_odd_in_name);
      status && odd != device.name.end()) {
    return fail(ErrorKind::kBadInput,
                "name: a device's name is one line without '#', for plans name it");
  }
  object.lines("note", device.note);
  object.memory("memory", device.memory);
  object.bandwidth("memory_bandwidth", device.memory_bandwidth);
  read_flops(object.child("flops"), device.flops);
  read_efficiency(object.child("efficiency"), device.efficiency);
  object.layout("convolution_layout", device.convolution_layout);
  object.duration("launch", device.launch);
  object.alignment("alignment", device.alignment);
  read_link(object.child("link"), device.link);
  if (!status) return fail(status.error());
  return device;
}

Result<Link> parse_link(std::string_view json) {
  const auto root = read_json_object(json);
  if (!root) return fail(root.error());
  Status status;
  Link link;
  read_link(ObjectReader(*root, "link", status), link);
  if (!status) return fail(status.error());
  return link;
}

std::string to_json(const Link& link) { return link_object(link).dump(); }

std::string to_json(const Device& device) {
  Ordered note = Ordered::array();
  for (std::size_t begin = 0; begin < device.note.size();) {
    const std::size_t end = std::min(device.note.find('\n', begin), device.note.size());
    note.push_back(device.note.substr(begin, end - begin));
    begin = end + 1;
  }
  const FlopRates& flops = device.flops;
  const Ordered out{
      {"name", device.name},
      {"note", std::move(note)},
      {"memory", to_text(device.memory)},
      {"memory_bandwidth", to_text(device.memory_bandwidth)},
      {"flops",
       {{"f32", flops_text(flops.f32)},
        {"f32_matmul", flops_text(flops.f32_matmul)},
        {"f32_convolution", flops_text(flops.f32_convolution)},
        {"f64", flops_text(flops.f64)},
        {"f16", flops_text(flops.f16)},
        {"bf16", flops_text(flops.bf16)},
        {"int8", flops_text(flops.int8)}}},
      {"efficiency",
       {{"matmul", device.efficiency.matmul},
        {"convolution", device.efficiency.convolution},
        {"attention", device.efficiency.attention},
        {"memory", device.efficiency.memory}}},
      {"convolution_layout",
       device.convolution_layout == ConvolutionLayout::kAny ? kAnyLayout : kChannelsLast},
      {"launch", to_text(device.launch)},
      {"alignment", to_text(device.alignment)},
      {"link", link_object(device.link)}};
  return out.dump(2, ' ', false, Ordered::error_handler_t::replace) + "\n";
}

std::vector<std::string_view> device_names() {
  std::vector<std::string_view> names;
  names.reserve(kDeviceFiles.size());
  for (const DeviceFile& file : kDeviceFiles) names.push_back(file.name);
  return names;
}

Result<Device> find_device(const std::string& name_or_path) {
  for (const DeviceFile& file : kDeviceFiles) {
    if (file.name == name_or_path) return parse_device(file.json);
  }
  if (name_or_path.find('/') == std::string::npos && !name_or_path.ends_with(".json")) {
    NearestWord nearest(name_or_path);
    for (const DeviceFile& file : kDeviceFiles) nearest.offer(file.name);
    return fail(
        ErrorKind::kUsage,
        fmt::format("there is no device '{}'{} (known: {}, and files whose name ends in .json)",
                    printable(name_or_path), nearest.hint(), fmt::join(device_names(), ", ")));
  }
  const auto text = read_file(name_or_path);
  if (!text) return fail(text.error());
  auto device = parse_device(*text);
  if (!device) {
    Error error = device.error();
    error.message = error.render(printable(name_or_path));
    error.place = {};
    return fail(std::move(error));
  }
  return device;
}

}  // namespace ebb

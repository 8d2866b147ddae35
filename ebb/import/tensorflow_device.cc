#include "ebb/import/tensorflow_device.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

namespace ebb {
namespace {

std::string upper(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return out;
}

bool agrees(std::string_view wanted, std::string_view found) {
  return wanted.empty() || wanted == "*" || wanted == found;
}

}  // namespace

DeviceName read_device(std::string_view text) {
  DeviceName name;
  const auto set_type = [&](std::string_view type_and_number) {
    const std::size_t colon = type_and_number.find(':');
    name.type = upper(type_and_number.substr(0, colon));
    if (colon != std::string_view::npos) name.number = type_and_number.substr(colon + 1);
  };
  while (!text.empty()) {
    if (text.starts_with('/')) text.remove_prefix(1);
    const std::size_t end = std::min(text.find('/'), text.size());
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(end);
    const std::size_t colon = part.find(':');
    const std::string_view key = part.substr(0, colon);
    const std::string_view value =
        colon == std::string_view::npos ? std::string_view() : part.substr(colon + 1);
    if (key == "job") {
      name.job = value;
    } else if (key == "replica") {
      name.replica = value;
    } else if (key == "task") {
      name.task = value;
    } else if (key == "device") {
      set_type(value);
    } else if (!key.empty()) {
      set_type(part);  // "/gpu:0", as it was written once
    }
  }
  return name;
}

bool matches(const DeviceName& pattern, const DeviceName& device) {
  return !device.type.empty() && pattern.type == device.type &&
         agrees(pattern.number, device.number) && agrees(pattern.job, device.job) &&
         agrees(pattern.replica, device.replica) && agrees(pattern.task, device.task);
}

std::string device_beside(std::string_view beside, std::string_view wanted) {
  DeviceName name = read_device(wanted);
  const DeviceName other = read_device(beside);
  if (name.job.empty()) name.job = other.job;
  if (name.replica.empty()) name.replica = other.replica;
  if (name.task.empty()) name.task = other.task;
  std::string out;
  if (!name.job.empty()) out += "/job:" + name.job;
  if (!name.replica.empty()) out += "/replica:" + name.replica;
  if (!name.task.empty()) out += "/task:" + name.task;
  const std::string number = name.number.empty() || name.number == "*" ? "0" : name.number;
  return out + "/device:" + name.type + ":" + number;
}

Status check_device_pattern(std::string_view pattern, std::string_view parameter) {
  const DeviceName name = read_device(pattern);
  const bool is_type =
      !name.type.empty() && std::all_of(name.type.begin(), name.type.end(), [](char c) {
        return (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
      });
  const bool is_number =
      name.number.empty() || name.number == "*" || name.number == "0" ||
      (name.number[0] != '0' && std::all_of(name.number.begin(), name.number.end(),
                                            [](char c) { return c >= '0' && c <= '9'; }));
  if (is_type && is_number) return {};
  return fail(
      ErrorKind::kUsage,
      fmt::format("{} = '{}' is no device; write '/device:GPU:0', or '/device:GPU:*' for all",
                  parameter, printable(pattern)));
}

Status check_host_device(std::string_view host, std::string_view parameter) {
  const DeviceName name = read_device(host);
  if (name.type == "CPU" && name.number != "*" && check_device_pattern(host, parameter)) return {};
  return fail(ErrorKind::kUsage,
              fmt::format("{} = '{}' is no device with host memory; write '/device:CPU:0'",
                          parameter, printable(host)));
}

Status check_are_apart(std::string_view accelerator, std::string_view host) {
  const DeviceName pattern = read_device(accelerator);
  if (pattern.number == "*" || !matches(pattern, read_device(host))) return {};
  return fail(ErrorKind::kUsage,
              fmt::format("accelerator and host are the same device, '{}'; to try Ebb without a "
                          "GPU, make two logical CPU devices and name the second as the host",
                          printable(host)));
}

}  // namespace ebb

// TensorFlow's device names: "/job:worker/task:1/device:GPU:0", "/gpu:0", "/device:GPU:*".
#pragma once

#include <string>
#include <string_view>

#include "ebb/base/result.h"

namespace ebb {

struct DeviceName {
  std::string job, replica, task;  // empty: not said
  std::string type;                // upper case: "GPU"; empty: not said
  std::string number;              // "0"; empty or "*": any
};

// What is no name of a device has no type.
DeviceName read_device(std::string_view text);

// Whether a node's device is one that the pattern means. A node without a type of device is on no
// particular one, and matches nothing.
bool matches(const DeviceName& pattern, const DeviceName& device);

// The device `wanted` on the machine of `beside`: "/job:a/replica:0/task:1/device:CPU:0".
std::string device_beside(std::string_view beside, std::string_view wanted);

// A usage error for what is no name of a device, as "gpu".
[[nodiscard]] Status check_device_pattern(std::string_view pattern, std::string_view parameter);
// And for what is no CPU, or more than one.
[[nodiscard]] Status check_host_device(std::string_view host, std::string_view parameter);
// And where tensors would be swapped to the device that they come from.
[[nodiscard]] Status check_are_apart(std::string_view accelerator, std::string_view host);

}  // namespace ebb

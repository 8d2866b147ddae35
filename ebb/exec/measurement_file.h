// Measurements as a file, with the environment that they hold in.
//
//   {
//    "version": 2,
//    "environment": {"device": "Intel(R) Xeon(R) ...", "threads": "2", "torch": "2.11.0", ...},
//    "link": {"to_host": "53.6GB/s", "to_device": "55.1GB/s", ...},
//    "operations": [
//     {"signature": "aten::relu(f32[8]) -> f32[8]", "requests": [{"size": 32, "result": 0}],
//      "seconds": 5.2e-06}
//    ]
//   }
//
// The environment is everything that decides what kernels ask for and how long they take, in words:
// measurements of another one are worth nothing. The link is there where it was measured, and so
// are the seconds of an operation and its requests: those for a result have its number, those that
// a library kept are {"size": 64, "kept": true}, temporaries {"size": 64, "freed_after": 2}.
// Results that lie otherwise than the signature says are "otherwise": [{"result": 0, "strides": [1,
// 8]}].
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "ebb/base/result.h"
#include "ebb/exec/measurements.h"
#include "ebb/plan/device.h"

namespace ebb::exec {

using Environment = std::map<std::string, std::string>;

struct MeasurementFile {
  Environment environment = {};  // NOLINT(*-redundant-member-init): GCC wants it
  std::optional<Link> link = std::nullopt;
  Measurements operations = {};  // NOLINT(*-redundant-member-init)
};

// kBadInput. A recipe that comes out is sound by itself; whether it is one of a node, check_recipe
// says (MeasuredOnce asks).
[[nodiscard]] Result<MeasurementFile> parse_measurements(std::string_view json);
// Byte for byte the same for equal files; one operation a line, in the order of their signatures.
// Operations of which nothing is known are left out.
std::string to_json(const MeasurementFile& file);

}  // namespace ebb::exec

// No text breaks the reader of device files. What it accepts it writes back the same, and every
// copy and every operation takes a time that is no less than nothing.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ebb/base/check.h"
#include "ebb/plan/device.h"
#include "ebb/plan/roofline.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto device =
      ebb::parse_device(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!device) {
    EBB_CHECK(!device.error().message.empty(), "an error without words");
    EBB_CHECK(device.error().render("x").find('\n') == std::string::npos, "more than one line");
    return 0;
  }
  const std::string canonical = ebb::to_json(*device);
  const auto again = ebb::parse_device(canonical);
  EBB_CHECK(again.has_value(), "what was written is refused: {}", again.error().message);
  EBB_CHECK(ebb::to_json(*again) == canonical, "writing is not stable");
  EBB_CHECK(again->link == device->link && again->flops == device->flops &&
                again->efficiency == device->efficiency && again->memory == device->memory,
            "another device");

  for (const ebb::Bytes bytes : {ebb::Bytes{0}, ebb::Bytes{1}, ebb::Bytes{INT64_MAX}}) {
    for (const auto direction : {ebb::CopyDirection::kToHost, ebb::CopyDirection::kToDevice}) {
      const auto alone = ebb::copy_time(device->link, bytes, direction, false);
      const auto both = ebb::copy_time(device->link, bytes, direction, true);
      EBB_CHECK(alone.count() >= 0 && both >= alone, "a copy of {} takes {} ns, then {}",
                bytes.count, alone.count(), both.count());
    }
  }
  for (const double amount : {0.0, 1.0, 1e300}) {
    const ebb::Work work{.flops = amount, .bytes = amount, .kind = ebb::WorkKind::kMatmul};
    EBB_CHECK(ebb::time_of(work, *device) >= device->launch, "less than its launch");
  }
  return 0;
}

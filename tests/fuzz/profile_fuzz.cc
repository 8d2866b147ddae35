// No text breaks the reader of profiles, and what it accepts it writes back the same. Costs that
// come of it are no less than nothing.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ebb/base/check.h"
#include "ebb/graph/parse.h"
#include "ebb/plan/costs.h"
#include "ebb/plan/profile.h"
#include "tests/fuzz/error_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::string_view kGraph = R"(graph step {
  input %x: f32[8]
  %a: f32[8] = aten::relu(%x)
  %b: f32[8] = aten::sin(%a)
  return %b
}
)";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ebb::Graph kStep = ebb::parse_valid(kGraph).value();
  static const ebb::Device kDevice = ebb::find_device("cpu").value();

  const auto profile =
      ebb::parse_profile(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!profile) {
    ebb::expect_one_line_of_words(profile.error());
    return 0;
  }
  const std::string canonical = ebb::to_json(*profile);
  const auto again = ebb::parse_profile(canonical);
  EBB_CHECK(again.has_value(), "what was written is refused: {}", again.error().message);
  EBB_CHECK(*again == *profile, "another profile");
  EBB_CHECK(ebb::to_json(*again) == canonical, "writing is not stable");

  const auto costs = ebb::estimate_costs(kStep, kDevice, &*profile);
  if (!costs) {
    ebb::expect_one_line_of_words(costs.error());
    return 0;
  }
  for (const ebb::Duration time : costs->compute) EBB_CHECK(time.count() >= 0, "less than nothing");
  return 0;
}

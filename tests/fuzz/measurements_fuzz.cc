// No text breaks the reader of measurements, and what it accepts it writes back the same. A recipe
// that comes out is one that a workspace can be laid out for.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ebb/base/check.h"
#include "ebb/exec/measurement_file.h"
#include "tests/fuzz/error_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file =
      ebb::exec::parse_measurements(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!file) {
    ebb::expect_one_line_of_words(file.error());
    return 0;
  }
  const std::string canonical = ebb::exec::to_json(*file);
  const auto again = ebb::exec::parse_measurements(canonical);
  EBB_CHECK(again.has_value(), "what was written is refused: {}", again.error().message);
  EBB_CHECK(again->environment == file->environment, "another environment");
  EBB_CHECK(ebb::exec::to_json(*again) == canonical, "writing is not stable");
  for (const auto& [signature, measured] : file->operations) {
    if (!measured.recipe) continue;
    const ebb::Workspace workspace = ebb::lay_out_workspace(*measured.recipe, ebb::Bytes{64});
    EBB_CHECK(workspace.size.count >= 0, "a workspace of less than nothing");
  }
  return 0;
}

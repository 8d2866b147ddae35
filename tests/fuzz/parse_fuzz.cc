// No text breaks the reader, and what it accepts it prints back the same.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ebb/base/check.h"
#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"
#include "ebb/graph/verify.h"
#include "ebb/report/summary.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto graph = ebb::parse_valid(text);
  if (!graph) {
    EBB_CHECK(!graph.error().message.empty(), "an error without words");
    EBB_CHECK(graph.error().render("x").find('\n') == std::string::npos, "more than one line");
    return 0;
  }
  const std::string canonical = ebb::print(*graph);
  const auto again = ebb::parse_valid(canonical);
  EBB_CHECK(again.has_value(), "canonical text is refused: {}", again.error().message);
  EBB_CHECK(ebb::print(*again) == canonical, "printing is not stable");
  const ebb::Summary summary = ebb::summarize(*graph);
  EBB_CHECK(!ebb::to_text(*graph, summary).empty(), "nothing to show");
  EBB_CHECK(!ebb::to_json(*graph, summary).empty(), "nothing to show");
  return 0;
}

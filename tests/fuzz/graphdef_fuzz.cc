// No bytes break the reader of GraphDefs. What it accepts comes out byte for byte, also by way of
// the text form; and what the paper's driver makes of it is written, read again and proved.
#include <cstddef>
#include <cstdint>
#include <string>

#include "ebb/base/check.h"
#include "ebb/export/graphdef.h"
#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"
#include "ebb/import/graphdef.h"
#include "ebb/rewrite/lms_rewrite.h"
#include "ebb/rewrite/proof.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void check_words(const ebb::Error& error) {
  EBB_CHECK(!error.message.empty() && !error.code.empty(), "an error without words");
  EBB_CHECK(error.render("x").find('\n') == std::string::npos, "more than one line");
}

void check_rewriting(const ebb::Graph& graph, const ebb::LmsOptions& options) {
  const auto done = ebb::rewrite_by_lms(graph, options);
  if (!done) return;  // as when sizes would add up to more than there can be
  const auto bytes = ebb::export_graphdef(done->graph);
  EBB_CHECK(bytes.has_value(), "what was rewritten is not written: {}", bytes.error().message);
  const auto again = ebb::import_graphdef(*bytes);
  EBB_CHECK(again.has_value(), "what was written is refused: {}", again.error().message);
  const auto proof = ebb::compare_computations(graph, *again);
  EBB_CHECK(proof.has_value(), "what was read again is not the same: {}", proof.error().message);
  EBB_CHECK(proof->swap_ins == done->proof.swap_ins && proof->clones == done->proof.clones,
            "swaps or clones were lost");
  EBB_CHECK(ebb::export_graphdef(*again) == *bytes, "writing is not stable");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto graph = ebb::import_graphdef(bytes);
  if (!graph) {
    check_words(graph.error());
    return 0;
  }
  EBB_CHECK(ebb::export_graphdef(*graph) == bytes, "other bytes");
  const std::string text = ebb::print(*graph);
  const auto parsed = ebb::parse_valid(text);
  EBB_CHECK(parsed.has_value(), "the text is refused: {}", parsed.error().message);
  EBB_CHECK(ebb::print(*parsed) == text, "another text");
  EBB_CHECK(ebb::export_graphdef(*parsed) == bytes, "other bytes by way of the text");
  ebb::LmsOptions options;
  if (size % 2 == 0) {
    options.whole_graph = true;
    options.alpha = 1;
    options.sync = 1;
  } else {
    options.recompute_types = {"Tanh", "Relu", "Identity"};
  }
  check_rewriting(*graph, options);
  return 0;
}

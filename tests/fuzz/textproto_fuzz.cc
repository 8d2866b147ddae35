// No bytes break the readers of TensorFlow's files; what was read is written and read again the
// same.
#include <cstddef>
#include <cstdint>
#include <string>

#include "ebb/base/check.h"
#include "ebb/export/tensorflow_file.h"
#include "ebb/export/textproto.h"
#include "ebb/import/tensorflow_file.h"
#include "ebb/import/textproto.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void check_words(const ebb::Error& error) {
  EBB_CHECK(!error.message.empty(), "an error without words");
  EBB_CHECK(error.render("x").find('\n') == std::string::npos, "more than one line");
}

// Binary to text and back, which is stable once maps are sorted and defaults are gone.
void check_stable(const std::string& bytes, ebb::TensorFlowKind kind) {
  const auto text = ebb::graphdef_to_text(bytes, kind);
  if (!text) {
    check_words(text.error());
    return;
  }
  const auto canonical = ebb::graphdef_from_text(*text, kind);
  EBB_CHECK(canonical.has_value(), "what was written is refused: {}", canonical.error().message);
  const auto again = ebb::graphdef_to_text(*canonical, kind);
  EBB_CHECK(again.has_value() && *again == *text, "the text is not stable");
  EBB_CHECK(ebb::graphdef_from_text(*again, kind) == *canonical, "the bytes are not stable");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string content(reinterpret_cast<const char*>(data), size);
  if (const auto bytes = ebb::graphdef_from_text(content)) {
    const auto kind = ebb::kind_of_text(content);
    EBB_CHECK(kind.has_value(), "a text of no kind");
    // Every text that is read can be written; protobuf has the same limits.
    EBB_CHECK(ebb::graphdef_to_text(*bytes, *kind).has_value(), "what was read is not written");
    check_stable(*bytes, *kind);
  } else {
    check_words(bytes.error());
  }
  for (const ebb::TensorFlowKind kind : ebb::kTensorFlowKinds) check_stable(content, kind);

  const auto file = ebb::read_tensorflow_file(content);
  if (!file) {
    check_words(file.error());
    return 0;
  }
  EBB_CHECK(file->graph.begin + file->graph.size <= file->bytes.size(), "a graph beyond the end");
  if (!file->is_text) {
    EBB_CHECK(ebb::with_graphdef(*file, file->graphdef()) == content, "other bytes");
  }
  const auto emptied = ebb::with_graphdef(*file, "");
  EBB_CHECK(file->is_text || emptied.has_value(), "no file without a graph");
  return 0;
}

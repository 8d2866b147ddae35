// No file breaks the reader, and what it accepts is written back the same.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ebb/base/check.h"
#include "ebb/import/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

std::string written(const ebb::Safetensors& content) {
  const auto pieces = ebb::write_safetensors(content);
  EBB_CHECK(pieces.has_value(), "what was read is not written: {}", pieces.error().message);
  std::string file;
  for (const std::string_view piece : pieces->all()) file += piece;
  return file;
}

std::uint64_t sum(std::span<const std::byte> bytes) {
  std::uint64_t total = 0;
  for (const std::byte byte : bytes) total += std::to_integer<std::uint64_t>(byte);
  return total;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto content = ebb::read_safetensors(std::as_bytes(std::span(data, size)));
  if (!content) {
    EBB_CHECK(!content.error().message.empty(), "an error without words");
    EBB_CHECK(content.error().render("x").find('\n') == std::string::npos, "more than one line");
    return 0;
  }
  const std::string file = written(*content);
  const auto again = ebb::read_safetensors(std::as_bytes(std::span(file)));
  EBB_CHECK(again.has_value(), "what was written is refused: {}", again.error().message);
  EBB_CHECK(again->metadata == content->metadata, "other metadata");
  EBB_CHECK(again->tensors.size() == content->tensors.size(), "other tensors");
  for (std::size_t i = 0; i < again->tensors.size(); ++i) {
    const ebb::Safetensor& before = content->tensors[i];
    const ebb::Safetensor& after = again->tensors[i];
    EBB_CHECK(after.name == before.name && ebb::to_text(after) == ebb::to_text(before),
              "another tensor");
    EBB_CHECK(sum(after.bytes) == sum(before.bytes), "other bytes");
    EBB_CHECK(content->find(before.name) == &before, "a tensor that is not found");
  }
  EBB_CHECK(written(*again) == file, "writing is not stable");
  return 0;
}

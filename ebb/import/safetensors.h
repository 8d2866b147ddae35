// The safetensors format: tensors by name in one file, readable without running anything.
//
//   8 bytes        the header's length N, little-endian
//   N bytes        JSON: {"__metadata__": {"key": "text"},
//                         "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
//   the rest       the tensors' bytes, little-endian and row-major, without holes
//
// The reader takes any bytes and answers with what they hold or with the first thing that is wrong,
// naming the tensor. It is as strict as the format's own library, and stricter where that is lax:
// keys given twice and unknown fields are refused. It does not recurse, and takes time n log n in
// the number of tensors; their bytes are not looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/graph/dtype.h"

namespace ebb {

inline constexpr std::uint64_t kLongestSafetensorsHeader = 100'000'000;  // the library's limit

// "F32"; empty when the format has no such type.
std::string_view safetensors_name(DType dtype);
std::optional<DType> find_safetensors_dtype(std::string_view name);

struct Safetensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;  // exactly those of the shape; they belong to somebody else
};

// "f32[2,3]"
std::string to_text(const Safetensor& tensor);

struct Safetensors {
  std::vector<Safetensor> tensors;  // sorted by name, each once
  std::map<std::string, std::string> metadata;

  [[nodiscard]] const Safetensor* find(std::string_view name) const;  // null when there is none
};

// The tensors' bytes are views of `file`. Errors are kBadInput and do not name the file.
[[nodiscard]] Result<Safetensors> read_safetensors(std::span<const std::byte> file);

// A file in pieces, to be written one after the other (write_file in base/file.h).
struct SafetensorsPieces {
  std::string header;
  std::vector<std::string_view> tensors;  // views of the tensors' bytes

  // Header and tensors; views of this object.
  [[nodiscard]] std::vector<std::string_view> all() const;
};

// Tensors of larger elements stand first, so that all are aligned, and otherwise by name: the same
// content is the same file. Fails (kBadInput) on what the format cannot say: a name of its own, an
// element type it does not have, a header of more than 100 MB.
[[nodiscard]] Result<SafetensorsPieces> write_safetensors(const Safetensors& content);

}  // namespace ebb

#include "ebb/import/tensorflow_types.h"

#include <algorithm>
#include <array>

namespace ebb {
namespace {

struct Entry {
  int number;
  std::string_view name;
  DType dtype;
  bool is_only_one = true;  // no other of TensorFlow's types is the same of ours
};

constexpr std::array kEntries = {
    Entry{1, "float", DType::kF32},
    Entry{2, "double", DType::kF64},
    Entry{3, "int32", DType::kI32},
    Entry{4, "uint8", DType::kU8},
    Entry{5, "int16", DType::kI16},
    Entry{6, "int8", DType::kI8},
    Entry{7, "string", DType::kString},
    Entry{8, "complex64", DType::kC64},
    Entry{9, "int64", DType::kI64},
    Entry{10, "bool", DType::kBool},
    Entry{11, "qint8", DType::kVariant, false},
    Entry{12, "quint8", DType::kVariant, false},
    Entry{13, "qint32", DType::kVariant, false},
    Entry{14, "bfloat16", DType::kBF16},
    Entry{15, "qint16", DType::kVariant, false},
    Entry{16, "quint16", DType::kVariant, false},
    Entry{17, "uint16", DType::kU16},
    Entry{18, "complex128", DType::kC128},
    Entry{19, "half", DType::kF16},
    Entry{20, "resource", DType::kResource},
    Entry{21, "variant", DType::kVariant},
    Entry{22, "uint32", DType::kU32},
    Entry{23, "uint64", DType::kU64},
    Entry{24, "float8_e5m2", DType::kF8E5M2},
    Entry{25, "float8_e4m3fn", DType::kF8E4M3},
    // Packed or rarer forms, which stay where they are.
    Entry{26, "float8_e4m3fnuz", DType::kVariant, false},
    Entry{27, "float8_e4m3b11fnuz", DType::kVariant, false},
    Entry{28, "float8_e5m2fnuz", DType::kVariant, false},
    Entry{29, "int4", DType::kVariant, false},
    Entry{30, "uint4", DType::kVariant, false},
    Entry{31, "int2", DType::kVariant, false},
    Entry{32, "uint2", DType::kVariant, false},
    Entry{33, "float4_e2m1fn", DType::kVariant, false},
};

}  // namespace

DType dtype_of_tensorflow(int number) {
  if (number > kFirstReference) return DType::kResource;
  const auto* found = std::find_if(kEntries.begin(), kEntries.end(),
                                   [&](const Entry& entry) { return entry.number == number; });
  return found == kEntries.end() ? DType::kVariant : found->dtype;
}

std::optional<int> find_tensorflow_type(std::string_view name) {
  for (const Entry& entry : kEntries) {
    if (entry.name == name) return entry.number;
  }
  return std::nullopt;
}

std::optional<int> tensorflow_type_of(DType dtype) {
  for (const Entry& entry : kEntries) {
    if (entry.dtype == dtype && entry.is_only_one) return entry.number;
  }
  return std::nullopt;
}

}  // namespace ebb

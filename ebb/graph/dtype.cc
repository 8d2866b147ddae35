#include "ebb/graph/dtype.h"

#include <array>

namespace ebb {
namespace {

struct Entry {
  std::string_view name;
  int size;
};

// In the order of the enumeration.
constexpr std::array kEntries = {
    Entry{"bool", 1},  Entry{"i8", 1},     Entry{"i16", 2},      Entry{"i32", 4},
    Entry{"i64", 8},   Entry{"u8", 1},     Entry{"u16", 2},      Entry{"u32", 4},
    Entry{"u64", 8},   Entry{"f8e4m3", 1}, Entry{"f8e5m2", 1},   Entry{"f16", 2},
    Entry{"bf16", 2},  Entry{"f32", 4},    Entry{"f64", 8},      Entry{"c64", 8},
    Entry{"c128", 16}, Entry{"string", 0}, Entry{"resource", 0}, Entry{"variant", 0},
};
static_assert(kEntries.size() == static_cast<std::size_t>(DType::kVariant) + 1);

}  // namespace

std::string_view name(DType dtype) { return kEntries[static_cast<std::size_t>(dtype)].name; }

int element_size(DType dtype) { return kEntries[static_cast<std::size_t>(dtype)].size; }

std::optional<DType> find_dtype(std::string_view name) {
  for (std::size_t i = 0; i < kEntries.size(); ++i) {
    if (kEntries[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

bool is_scalar_dtype(DType dtype) {
  return dtype == DType::kBool || dtype == DType::kI64 || dtype == DType::kF64;
}

}  // namespace ebb

#include "ebb/import/safetensors.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ebb/base/check.h"
#include "ebb/base/utf8.h"

namespace ebb {
namespace {

struct DTypeName {
  std::string_view name;
  DType dtype;
};

constexpr std::array kDTypes = {
    DTypeName{"BOOL", DType::kBool},      DTypeName{"I8", DType::kI8},
    DTypeName{"I16", DType::kI16},        DTypeName{"I32", DType::kI32},
    DTypeName{"I64", DType::kI64},        DTypeName{"U8", DType::kU8},
    DTypeName{"U16", DType::kU16},        DTypeName{"U32", DType::kU32},
    DTypeName{"U64", DType::kU64},        DTypeName{"F8_E4M3", DType::kF8E4M3},
    DTypeName{"F8_E5M2", DType::kF8E5M2}, DTypeName{"F16", DType::kF16},
    DTypeName{"BF16", DType::kBF16},      DTypeName{"F32", DType::kF32},
    DTypeName{"F64", DType::kF64},        DTypeName{"C64", DType::kC64},
};

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// As the file has them: larger elements first, then by name.
std::vector<const Safetensor*> in_file_order(const std::vector<Safetensor>& tensors) {
  std::vector<const Safetensor*> order;
  order.reserve(tensors.size());
  for (const Safetensor& tensor : tensors) order.push_back(&tensor);
  std::ranges::sort(order, [](const Safetensor* a, const Safetensor* b) {
    const int a_size = element_size(a->dtype);
    const int b_size = element_size(b->dtype);
    return a_size != b_size ? a_size > b_size : a->name < b->name;
  });
  return order;
}

Status check_writable(const Safetensor& tensor) {
  EBB_CHECK(is_utf8(tensor.name), "a tensor whose name is no UTF-8");
  if (safetensors_name(tensor.dtype).empty()) {
    return fail(ErrorKind::kBadInput,
                fmt::format("safetensors files cannot hold tensors of {}, as '{}' is",
                            name(tensor.dtype), tensor.name));
  }
  if (tensor.name == "__metadata__") {
    return fail(ErrorKind::kBadInput,
                "safetensors files cannot hold a tensor named '__metadata__'");
  }
  return {};
}

std::string length_bytes(std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8U * static_cast<unsigned>(i)));
  return bytes;
}

}  // namespace

std::string_view safetensors_name(DType dtype) {
  const auto* found = std::ranges::find(kDTypes, dtype, &DTypeName::dtype);
  return found == kDTypes.end() ? std::string_view() : found->name;
}

std::optional<DType> find_safetensors_dtype(std::string_view name) {
  const auto* found = std::ranges::find(kDTypes, name, &DTypeName::name);
  return found == kDTypes.end() ? std::nullopt : std::optional(found->dtype);
}

std::string to_text(const Safetensor& tensor) {
  return fmt::format("{}[{}]", name(tensor.dtype), fmt::join(tensor.shape, ","));
}

const Safetensor* Safetensors::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(tensors, name, {}, &Safetensor::name);
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

std::vector<std::string_view> SafetensorsPieces::all() const {
  std::vector<std::string_view> pieces{header};
  pieces.insert(pieces.end(), tensors.begin(), tensors.end());
  return pieces;
}

Result<SafetensorsPieces> write_safetensors(const Safetensors& content) {
  SafetensorsPieces pieces;
  // Written out word by word: a JSON object would look for every new name among those it has.
  std::string text = "{";
  if (!content.metadata.empty()) {
    text += "\"__metadata__\":" + nlohmann::json(content.metadata).dump();
  }
  std::uint64_t offset = 0;
  for (const Safetensor* tensor : in_file_order(content.tensors)) {
    if (Status ok = check_writable(*tensor); !ok) return fail(ok.error());
    const std::uint64_t end = offset + tensor->bytes.size();
    text +=
        fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                    text.size() > 1 ? "," : "", nlohmann::json(tensor->name).dump(),
                    safetensors_name(tensor->dtype), fmt::join(tensor->shape, ","), offset, end);
    offset = end;
    pieces.tensors.push_back(as_text(tensor->bytes));
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');  // so that what follows is aligned
  if (text.size() > kLongestSafetensorsHeader) {
    return fail(ErrorKind::kBadInput,
                fmt::format("safetensors files have headers of at most {} bytes; the names of {} "
                            "tensors take {}",
                            kLongestSafetensorsHeader, content.tensors.size(), text.size()));
  }
  pieces.header = length_bytes(text.size()) + text;
  return pieces;
}

}  // namespace ebb

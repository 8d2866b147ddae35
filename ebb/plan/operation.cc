#include "ebb/plan/operation.h"

#include <algorithm>

#include "ebb/import/tensorflow_device.h"

namespace ebb {
namespace {

double known(std::int64_t dim) { return static_cast<double>(std::max<std::int64_t>(dim, 0)); }

}  // namespace

double element_count(const TensorType* type) {
  double count = 1;
  if (type == nullptr) return count;
  for (const std::int64_t each : type->dims) count *= known(each);
  return count;
}

double dim(const TensorType* type, int index) {
  if (type == nullptr) return 1;
  const auto rank = static_cast<int>(type->dims.size());
  const int at = index < 0 ? rank + index : index;
  return at < 0 || at >= rank ? 1 : known(type->dims[static_cast<std::size_t>(at)]);
}

double bytes_moved(const TensorType* type) {
  if (type == nullptr || type->residence == Residence::kHost) return 0;
  double bytes = element_size(type->dtype);
  for (std::size_t i = 0; i < type->dims.size(); ++i) {
    const bool is_repeated = !type->strides.empty() && type->strides[i] == 0 && type->dims[i] > 0;
    if (!is_repeated) bytes *= known(type->dims[i]);
  }
  return bytes;
}

bool Operation::is_on_cpu() const { return read_device(graph_.device(node_)).type == "CPU"; }

const TensorType* Operation::operand(std::size_t index) const {
  const auto operands = graph_.operands(node_);
  if (index >= operands.size() || !operands[index].tensor.valid()) return nullptr;
  return &graph_.type(operands[index].tensor);
}

const TensorType* Operation::result(std::size_t index) const {
  std::size_t i = 0;
  for (const TensorId result : graph_.results(node_)) {
    if (i++ == index) return &graph_.type(result);
  }
  return nullptr;
}

const TensorType* Operation::largest_operand() const {
  const TensorType* largest = nullptr;
  for (const Operand& operand : graph_.operands(node_)) {
    if (!operand.tensor.valid()) continue;
    const TensorType* type = &graph_.type(operand.tensor);
    if (bytes_moved(type) > bytes_moved(largest)) largest = type;
  }
  return largest;
}

double Operation::all_operand_bytes() const {
  double bytes = 0;
  for (const Operand& operand : graph_.operands(node_)) {
    if (operand.tensor.valid()) bytes += bytes_moved(&graph_.type(operand.tensor));
  }
  return bytes;
}

double Operation::all_result_bytes() const {
  double bytes = 0;
  for (const TensorId result : graph_.results(node_)) bytes += bytes_moved(&graph_.type(result));
  return bytes;
}

double Operation::all_result_elements() const {
  double count = 0;
  for (const TensorId result : graph_.results(node_)) count += element_count(&graph_.type(result));
  return count;
}

bool Operation::flag(std::string_view key, bool otherwise) const {
  const Attribute* attribute = graph_.find_attribute(node_, key);
  if (attribute == nullptr || attribute->is_list) return otherwise;
  const auto* value = std::get_if<bool>(graph_.items(*attribute).data());
  return value == nullptr ? otherwise : *value;
}

std::string_view Operation::text(std::string_view key) const {
  const Attribute* attribute = graph_.find_attribute(node_, key);
  if (attribute == nullptr || attribute->is_list) return {};
  const auto* value = std::get_if<Text>(graph_.items(*attribute).data());
  return value == nullptr ? std::string_view() : graph_.text(value->id);
}

bool Operation::flag_in(std::string_view key, std::size_t index) const {
  const Attribute* attribute = graph_.find_attribute(node_, key);
  if (attribute == nullptr || !attribute->is_list) return true;
  const auto items = graph_.items(*attribute);
  if (index >= items.size()) return true;
  const auto* value = std::get_if<bool>(&items[index]);
  return value == nullptr || *value;
}

}  // namespace ebb

#include "ebb/import/graphdef_results.h"

#include <algorithm>

#include <fmt/format.h>

#include "ebb/import/graphdef_attributes.h"
#include "ebb/import/graphdef_error.h"
#include "ebb/import/tensorflow_types.h"

namespace ebb {
namespace {

// More results than any node has: what a broken file could ask for.
constexpr std::int64_t kMostResults = 1 << 20;

tl::unexpected<Error> refuse(std::string message) {
  return refuse_graphdef("G07", std::move(message));
}

// A type or a number that an attribute gives, or that stands for it where the node has none.
Result<std::int64_t> number_of(const NodeDefView& node, const TensorFlowOp& op,
                               std::string_view attribute) {
  if (const auto value = node.attribute(attribute)) {
    if (const auto number = int_of_attr_value(*value)) return *number;
    return refuse(fmt::format("node '{}': the attribute {} is neither a number nor a type",
                              printable(node.name), attribute));
  }
  for (const auto& [name, number] : op.defaults) {
    if (name == attribute) return number;
  }
  return refuse(fmt::format("node '{}' lacks the attribute {}, without which {} has no meaning",
                            printable(node.name), attribute, op.name));
}

Result<std::vector<int>> types_of(const NodeDefView& node, const TensorFlowOp& op,
                                  const TensorFlowArg& arg) {
  if (!arg.list_attribute.empty()) {
    if (const auto value = node.attribute(arg.list_attribute)) return types_of_attr_value(*value);
    for (const auto& [name, types] : op.list_defaults) {
      if (name == arg.list_attribute) return types;
    }
    return refuse(fmt::format("node '{}' lacks the attribute {}, without which {} has no meaning",
                              printable(node.name), arg.list_attribute, op.name));
  }
  std::int64_t type = arg.type;
  if (!arg.type_attribute.empty()) {
    const auto given = number_of(node, op, arg.type_attribute);
    if (!given) return fail(given.error());
    type = *given;
  }
  if (arg.is_reference) type += kFirstReference;
  std::int64_t count = 1;
  if (!arg.count_attribute.empty()) {
    const auto given = number_of(node, op, arg.count_attribute);
    if (!given) return fail(given.error());
    count = *given;
  }
  if (count < 0 || count > kMostResults) {
    return refuse(fmt::format("node '{}': {} = {} is no number of tensors", printable(node.name),
                              arg.count_attribute, count));
  }
  return std::vector<int>(static_cast<std::size_t>(count), static_cast<int>(type));
}

bool is_on_host(const NodeDefView& node, const TensorFlowOp& op, const TensorFlowArg& arg) {
  if (arg.is_on_host) return true;
  return std::any_of(op.host_rules.begin(), op.host_rules.end(), [&](const HostRule& rule) {
    return rule.result == arg.name &&
           std::all_of(rule.conditions.begin(), rule.conditions.end(), [&](const auto& condition) {
             const auto type = number_of(node, op, condition.first);
             return type && std::find(condition.second.begin(), condition.second.end(), *type) !=
                                condition.second.end();
           });
  });
}

void set_shape(TensorType& type, const TensorFlowShape& shape) {
  type.ranked = shape.has_value();
  if (shape) type.dims = *shape;
}

// Handles are points, whatever the variable behind them looks like.
bool is_handle(DType dtype) { return dtype == DType::kResource; }

void find_shapes(const NodeDefView& node, const GraphDefOptions& options,
                 std::vector<TensorType>& types) {
  std::vector<TensorFlowShape> shapes;
  if (const auto value = node.attribute("_output_shapes")) shapes = shapes_of_attr_value(*value);
  std::optional<TensorFlowShape> only;
  if (node.op == "Const") {
    if (const auto value = node.attribute("value")) only = shape_of_tensor_attr_value(*value);
  } else if (node.op == "Placeholder" && shapes.empty()) {
    if (const auto value = node.attribute("shape")) only = shape_of_attr_value(*value);
  }
  for (std::size_t i = 0; i < types.size(); ++i) {
    TensorType& type = types[i];
    if (is_handle(type.dtype)) continue;
    type.ranked = false;
    if (i < shapes.size()) {
      set_shape(type, shapes[i]);
    } else if (only) {
      set_shape(type, *only);
    } else if (options.shape_of) {
      if (const auto told = options.shape_of(node.name, static_cast<int>(i))) {
        type.ranked = told->ranked;
        type.dims = told->dims;
      }
    }
  }
}

}  // namespace

Result<std::vector<TensorType>> find_results(const NodeDefView& node, const TensorFlowOp* op,
                                             std::uint32_t results_read,
                                             const DeviceName& accelerator,
                                             const GraphDefOptions& options) {
  const DeviceName device = read_device(node.device);
  const bool is_elsewhere = !device.type.empty() && !matches(accelerator, device);
  const bool is_cpu_only = op == nullptr || !op->has_gpu_kernel;
  std::vector<TensorType> results;
  const auto add = [&](int type, bool on_host) {
    TensorType result;
    result.dtype = dtype_of_tensorflow(type);
    result.residence =
        on_host || is_elsewhere || is_cpu_only ? Residence::kHost : Residence::kDevice;
    results.push_back(std::move(result));
  };
  if (op == nullptr) {
    std::size_t count = results_read;
    if (const auto value = node.attribute("_output_shapes")) {
      count = std::max(count, shapes_of_attr_value(*value).size());
    }
    if (count > kMostResults) {
      return refuse(fmt::format("node '{}' cannot have {} results", printable(node.name), count));
    }
    constexpr int kUnknownType = 21;  // a variant
    for (std::size_t i = 0; i < count; ++i) add(kUnknownType, true);
  } else {
    for (const TensorFlowArg& arg : op->results) {
      const auto types = types_of(node, *op, arg);
      if (!types) return fail(types.error());
      const bool on_host = is_on_host(node, *op, arg);
      for (const int type : *types) add(type, on_host);
    }
  }
  find_shapes(node, options, results);
  for (const TensorType& result : results) {
    if (is_too_large(result)) {
      return refuse(fmt::format("node '{}' makes {}, more than any memory holds",
                                printable(node.name), to_text(result)));
    }
  }
  return results;
}

Result<std::vector<std::size_t>> count_results(const NodeDefView& node, const TensorFlowOp& op) {
  std::vector<std::size_t> counts;
  for (const TensorFlowArg& arg : op.results) {
    const auto types = types_of(node, op, arg);
    if (!types) return fail(types.error());
    counts.push_back(types->size());
  }
  return counts;
}

Result<std::size_t> count_operands(const NodeDefView& node, const TensorFlowOp& op) {
  std::size_t count = 0;
  for (const TensorFlowArg& arg : op.operands) {
    const auto types = types_of(node, op, arg);
    if (!types) return fail(types.error());
    count += types->size();
  }
  return count;
}

}  // namespace ebb

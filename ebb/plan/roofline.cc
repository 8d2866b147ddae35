#include "ebb/plan/roofline.h"

#include <algorithm>
#include <cmath>

#include "ebb/base/check.h"
#include "ebb/graph/ebb_ops.h"
#include "ebb/import/graphdef_notes.h"
#include "ebb/plan/formulas.h"

namespace ebb {
namespace {

double rate_of(WorkKind kind, DType dtype, const FlopRates& rates) {
  if (kind == WorkKind::kMemory) return dtype == DType::kF64 ? rates.f64 : rates.f32;
  switch (dtype) {
    case DType::kF64:
    case DType::kC128:
      return rates.f64;
    case DType::kF16:
      return rates.f16;
    case DType::kBF16:
      return rates.bf16;
    case DType::kI8:
    case DType::kU8:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return rates.int8;
    case DType::kF32:
    case DType::kC64:
      return kind == WorkKind::kConvolution ? rates.f32_convolution : rates.f32_matmul;
    default:
      return rates.f32;
  }
}

double efficiency_of(WorkKind kind, const Efficiency& efficiency) {
  switch (kind) {
    case WorkKind::kMatmul:
      return efficiency.matmul;
    case WorkKind::kConvolution:
      return efficiency.convolution;
    case WorkKind::kAttention:
      return efficiency.attention;
    default:
      return 1;  // elementwise arithmetic is hidden behind memory; this is a bound only
  }
}

Formula find_formula(std::string_view op) {
  if (op.starts_with("aten::")) return find_aten_formula(op);
  if (op.starts_with("tf::")) return find_tensorflow_formula(op);
  // On the link, not on the device; the others are a pass over memory.
  if (op == kSwapOut || op == kSwapIn || op == kFileOp) return formulas::nothing;
  if (is_copy(op)) return formulas::elementwise;
  return nullptr;
}

}  // namespace

FormulaTable::FormulaTable(std::string_view prefix, std::span<const FormulaFamily> families)
    : prefix_(prefix) {
  for (const FormulaFamily& family : families) {
    for (std::string_view rest = family.names; !rest.empty();) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      const bool is_new = formulas_.emplace(rest.substr(0, end), family.formula).second;
      EBB_CHECK(is_new, "{} has two formulas", rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
}

Formula FormulaTable::find(std::string_view op) const {
  const auto found = formulas_.find(op.substr(prefix_.size()));
  return found == formulas_.end() ? nullptr : found->second;
}

bool is_view(const Graph& graph, NodeId node) {
  if (!graph.is_op(node) || graph.updates_something(node)) return false;
  const auto results = graph.results(node);
  const auto operands = graph.operands(node);
  return results.begin() != results.end() &&
         std::all_of(results.begin(), results.end(), [&](TensorId result) {
           return std::any_of(operands.begin(), operands.end(), [&](const Operand& operand) {
             return operand.tensor.valid() &&
                    graph.storage(operand.tensor) == graph.storage(result);
           });
         });
}

Work work_of(const Graph& graph, NodeId node) {
  if (!graph.is_op(node) || graph.runs_on_host(node) || is_view(graph, node)) return {};
  const Operation operation(graph, node);
  if (const Formula formula = find_formula(graph.op(node))) return formula(operation);
  Work work = formulas::elementwise(operation);
  work.is_known = false;
  return work;
}

TensorId find_unknown_size(const Graph& graph, NodeId node) {
  const auto is_unknown = [&](TensorId tensor) {
    const TensorType& type = graph.type(tensor);
    return type.residence == Residence::kDevice && element_size(type.dtype) > 0 && !extent(type);
  };
  for (const Operand& operand : graph.operands(node)) {
    if (operand.tensor.valid() && is_unknown(operand.tensor)) return operand.tensor;
  }
  for (const TensorId result : graph.results(node)) {
    if (is_unknown(result)) return result;
  }
  return {};
}

Duration time_of(const Work& work, const Device& device) {
  constexpr double kLongest = 9007199254740992.0;  // 2^53 ns, a hundred days
  if (work.kind == WorkKind::kNothing) return Duration{0};
  const double computing = work.flops / (rate_of(work.kind, work.dtype, device.flops) *
                                         efficiency_of(work.kind, device.efficiency));
  const double bandwidth = device.memory_bandwidth.bytes_per_second * device.efficiency.memory;
  const bool repacks = device.convolution_layout == ConvolutionLayout::kChannelsLast;
  const double seconds =
      std::max(computing, work.bytes / bandwidth) + (repacks ? work.repacked_bytes / bandwidth : 0);
  const double all = static_cast<double>(device.launch.count()) + std::ceil(seconds * 1e9);
  // Written so that what is no number is the longest.
  return Duration{static_cast<std::int64_t>(all < kLongest ? std::max(all, 0.0) : kLongest)};
}

}  // namespace ebb

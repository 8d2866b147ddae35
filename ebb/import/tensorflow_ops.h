// What TensorFlow's operators take and make: the table in tensorflow_ops.inc, which is made from
// TensorFlow itself, and OpDefs of operators that are not TensorFlow's own.
//
//   const TensorFlowOp* op = find_tensorflow_op("MatMul");   // nullptr: not one of TensorFlow's
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ebb {

// One operand or result in the declaration; it may stand for several.
struct TensorFlowArg {
  std::string name;
  int type = 0;                 // of TensorFlow's numbers; 0 when an attribute says
  std::string type_attribute;   // "T"
  std::string count_attribute;  // "N": as many as it says
  std::string list_attribute;   // "Tin": one for each type in the list
  bool is_reference = false;
  bool is_on_host = false;  // its kernels for GPUs leave it in host memory
};

// In host memory where every attribute has one of the types.
struct HostRule {
  std::string result;
  std::vector<std::pair<std::string, std::vector<int>>> conditions;
};

struct TensorFlowOp {
  std::string name;
  std::vector<TensorFlowArg> operands;
  std::vector<TensorFlowArg> results;
  bool is_stateful = false;
  bool has_gpu_kernel = true;
  // Values of attributes where a node has none: a type, a number, or a list of types.
  std::vector<std::pair<std::string, std::int64_t>> defaults;
  std::vector<std::pair<std::string, std::vector<int>>> list_defaults;
  std::vector<HostRule> host_rules;
};

const TensorFlowOp* find_tensorflow_op(std::string_view name);
std::vector<std::string_view> tensorflow_op_names();

// Of a serialized OpDef, which says nothing of memory; nullopt when it is none.
std::optional<TensorFlowOp> read_op_def(std::string_view bytes);

// Whether the operator gives what comes from a generator: something else each time.
bool is_random(const TensorFlowOp& op);

// Whether who runs the graph may put another tensor in the place of what it makes. (He may do so to
// any tensor; these are made for it.)
bool may_be_fed(std::string_view op);
// Whether it changes the bytes of a tensor that others read, in an order that no edge tells.
bool writes_into_operand(std::string_view op);

}  // namespace ebb

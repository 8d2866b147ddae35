#include "ebb/torch/call.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <ATen/ScalarOps.h>
#include <ATen/core/List.h>
#include <c10/core/MemoryFormat.h>
#include <fmt/format.h>

#include "ebb/graph/convolution_backward.h"
#include "ebb/torch/dtype.h"

namespace ebb::torch {
namespace {

tl::unexpected<Error> wrong(std::string message) {
  return fail(ErrorKind::kBadInput, std::move(message));
}

std::optional<c10::MemoryFormat> find_memory_format(std::string_view name) {
  if (name == "contiguous_format") return c10::MemoryFormat::Contiguous;
  if (name == "channels_last") return c10::MemoryFormat::ChannelsLast;
  if (name == "channels_last_3d") return c10::MemoryFormat::ChannelsLast3d;
  if (name == "preserve_format") return c10::MemoryFormat::Preserve;
  return std::nullopt;
}

// A number in place of a tensor, as PyTorch's Python front end makes it: its type gives way to that
// of real tensors.
at::Tensor wrapped(const c10::Scalar& number) {
  at::Tensor tensor = c10::scalar_to_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

c10::Scalar as_scalar(const exec::Number& number) {
  return std::visit([](auto value) { return c10::Scalar(value); }, number);
}

exec::Number placeholder(DType dtype) {
  if (dtype == DType::kI64) return std::int64_t{1};
  if (dtype == DType::kBool) return false;
  return 0.5;
}

// "Tensor", "Tensor?", "Tensor[]", "Tensor?[]" and so on: the type without `?` at the end.
struct Kind {
  c10::TypePtr type;
  bool optional = false;
};
Kind strip_optional(c10::TypePtr type) {
  if (auto optional = type->cast<c10::OptionalType>()) {
    return {optional->getElementType(), true};
  }
  return {std::move(type), false};
}

bool is_list_of(const c10::TypePtr& type, c10::TypeKind kind) {
  const auto list = type->cast<c10::ListType>();
  return list != nullptr && list->getElementType()->kind() == kind;
}

bool is_int(const c10::TypePtr& type) {
  return type->kind() == c10::TypeKind::IntType || type->kind() == c10::TypeKind::SymIntType;
}

}  // namespace

Result<c10::OperatorHandle> find_operator(std::string_view op) {
  const std::size_t dot = op.find('.', op.find("::"));
  const std::string name(op.substr(0, dot));
  const std::string overload(dot == std::string_view::npos ? "" : op.substr(dot + 1));
  auto found = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!found.has_value()) {
    return wrong(fmt::format("PyTorch has no operator '{}'", printable(op)));
  }
  return *found;
}

// Fills in the arguments of a call.
class CallBuilder {
 public:
  CallBuilder(const Graph& graph, NodeId node, c10::Device device,
              const std::function<at::Tensor(TensorId)>& tensor_of)
      : graph_(graph),
        node_(node),
        device_(device),
        tensor_of_(tensor_of),
        operands_(graph.operands(node)) {}

  Result<Call> build() {
    auto op = find_operator(graph_.op(node_));
    if (!op) return fail(op.error());
    Call call(*op);
    call_ = &call;
    for (const c10::Argument& argument : op->schema().arguments()) {
      auto value = this->argument(argument);
      if (!value) return fail(value.error());
      call.arguments_.push_back(*std::move(value));
    }
    if (next_ != operands_.size()) {
      return wrong(fmt::format("{} takes fewer operands", graph_.op(node_)));
    }
    for (const Attribute& attribute : graph_.attributes(node_)) {
      const std::string_view key = graph_.text(attribute.key);
      if (!key.starts_with("ebb.") && !op->schema().argumentIndexWithName(key).has_value()) {
        return wrong(fmt::format("{} has no argument '{}'", graph_.op(node_), printable(key)));
      }
    }
    for (const c10::Argument& result : op->schema().returns()) {
      const c10::AliasInfo* alias = result.alias_info();
      call.returns_operand_.push_back(alias != nullptr && alias->isWrite());
    }
    return call;
  }

 private:
  Result<c10::IValue> argument(const c10::Argument& argument) {
    const Attribute* attribute = graph_.find_attribute(node_, argument.name());
    const Kind kind = strip_optional(argument.real_type());
    const bool is_tensor = kind.type->kind() == c10::TypeKind::TensorType;
    if (is_tensor && attribute == nullptr) return one_tensor(argument, kind.optional);
    if (const auto list = kind.type->cast<c10::ListType>()) {
      if (strip_optional(list->getElementType()).type->kind() == c10::TypeKind::TensorType) {
        return tensor_list(argument, *list);
      }
    }
    if (attribute == nullptr) {
      // The graph says it only where it is another one than the step's.
      if (kind.type->kind() == c10::TypeKind::DeviceObjType && !device_.is_cpu()) return device_;
      if (argument.default_value().has_value()) return *argument.default_value();
      if (kind.optional) return c10::IValue();
      return wrong(fmt::format("{} lacks its argument '{}'", graph_.op(node_), argument.name()));
    }
    auto value = is_tensor ? number_tensor(*attribute) : from_attribute(kind.type, *attribute);
    if (!value) {
      return wrong(fmt::format("{}: argument '{}' is of type {}, and the attribute does not fit",
                               graph_.op(node_), argument.name(), kind.type->str()));
    }
    return *std::move(value);
  }

  Result<c10::IValue> one_tensor(const c10::Argument& argument, bool optional) {
    if (next_ == operands_.size() || operands_[next_].position != Operand::Position::kAlone) {
      return wrong(fmt::format("{} lacks its operand '{}'", graph_.op(node_), argument.name()));
    }
    const Operand& operand = operands_[next_++];
    if (operand.tensor.valid()) return c10::IValue(tensor_of_(operand.tensor));
    if (optional) return c10::IValue();
    if (is_unread_input(argument)) return c10::IValue(tensor_of_(graph_.results(node_)[0]));
    // Some operators have no `?` in their schema where they take a tensor that is none.
    return c10::IValue(at::Tensor());
  }

  // Of the derivative of a convolution that computes the gradient of its input alone: PyTorch wants
  // a tensor that lies as the input did, which that gradient does, and looks at no element of it.
  [[nodiscard]] bool is_unread_input(const c10::Argument& argument) const {
    return gradient_mask(graph_, node_) == GradientMask{true, false, false} &&
           argument.name() == "input";
  }

  Result<c10::IValue> tensor_list(const c10::Argument& argument, const c10::ListType& type) {
    const bool optional = type.getElementType()->kind() == c10::TypeKind::OptionalType;
    c10::List<at::Tensor> tensors;
    c10::List<std::optional<at::Tensor>> maybe;
    const auto add = [&](TensorId tensor) {
      if (optional) {
        maybe.push_back(tensor.valid() ? std::optional(tensor_of_(tensor)) : std::nullopt);
      } else {
        tensors.push_back(tensor_of_(tensor));
      }
    };
    if (next_ == operands_.size()) {
      return wrong(fmt::format("{} lacks its operand '{}'", graph_.op(node_), argument.name()));
    }
    const Operand& first = operands_[next_++];
    if (first.position == Operand::Position::kAlone) {
      if (!first.tensor.valid()) return c10::IValue();  // an absent list
      return wrong(fmt::format("{}: operand '{}' is a list", graph_.op(node_), argument.name()));
    }
    if (first.position != Operand::Position::kEmptyList) {
      add(first.tensor);
      for (; next_ < operands_.size() && operands_[next_].position == Operand::Position::kListNext;
           ++next_) {
        add(operands_[next_].tensor);
      }
    }
    return optional ? c10::IValue(std::move(maybe)) : c10::IValue(std::move(tensors));
  }

  // The number a runtime scalar or a plain value stands for; nothing when it is none.
  std::optional<exec::Number> number(const Value& value) const {
    if (const auto* flag = std::get_if<bool>(&value)) return *flag;
    if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
    if (const auto* real = std::get_if<double>(&value)) return *real;
    if (const auto* scalar = std::get_if<ScalarId>(&value)) {
      return placeholder(graph_.dtype(*scalar));
    }
    return std::nullopt;
  }

  // A place to fill in before each call, when the value is a runtime scalar.
  Call::Slot* add_slot(const Value& value, Call::Slot::Kind kind) {
    const auto* scalar = std::get_if<ScalarId>(&value);
    if (scalar == nullptr) return nullptr;
    Call::Slot& slot = call_->slots_.emplace_back();
    slot.kind = kind;
    slot.scalar = *scalar;
    slot.dtype = graph_.dtype(*scalar);
    slot.argument = call_->arguments_.size();
    return &slot;
  }

  std::optional<c10::IValue> number_tensor(const Attribute& attribute) {
    const Value& value = graph_.items(attribute).front();
    const auto given = number(value);
    if (attribute.is_list || !given) return std::nullopt;
    const at::Tensor tensor = wrapped(as_scalar(*given));
    if (Call::Slot* slot = add_slot(value, Call::Slot::Kind::kTensor)) slot->tensor = tensor;
    return c10::IValue(tensor);
  }

  std::optional<c10::IValue> from_attribute(const c10::TypePtr& type, const Attribute& attribute) {
    const std::span<const Value> items = graph_.items(attribute);
    if (!attribute.is_list && std::holds_alternative<std::monostate>(items.front())) {
      return c10::IValue();
    }
    if (type->kind() == c10::TypeKind::ListType) return list(type, attribute);
    if (attribute.is_list) return std::nullopt;
    const Value& value = items.front();
    if (type->kind() == c10::TypeKind::StringType) {
      const auto* text = std::get_if<Text>(&value);
      if (text == nullptr) return std::nullopt;
      return c10::IValue(std::string(graph_.text(text->id)));
    }
    if (type->kind() == c10::TypeKind::DeviceObjType) {
      const auto* text = std::get_if<Text>(&value);
      if (text == nullptr) return std::nullopt;
      return c10::IValue(c10::Device(std::string(graph_.text(text->id))));
    }
    if (const auto* text = std::get_if<Text>(&value)) {  // an enumeration, which is an int
      const auto format = find_memory_format(graph_.text(text->id));
      if (!format) return std::nullopt;
      return c10::IValue(static_cast<std::int64_t>(*format));
    }
    if (const auto* dtype = std::get_if<DType>(&value)) {
      const auto scalar_type = to_torch(*dtype);
      if (!scalar_type) return std::nullopt;
      return c10::IValue(static_cast<std::int64_t>(*scalar_type));
    }
    const auto given = number(value);
    if (!given) return std::nullopt;
    const bool as_float = type->kind() == c10::TypeKind::FloatType;
    if (Call::Slot* slot = add_slot(value, Call::Slot::Kind::kNumber)) slot->as_float = as_float;
    return as_ivalue(as_scalar(*given), as_float);
  }

  static c10::IValue as_ivalue(const c10::Scalar& number, bool as_float) {
    return as_float ? c10::IValue(number.toDouble()) : c10::IValue(number);
  }

  std::optional<c10::IValue> list(const c10::TypePtr& type, const Attribute& attribute) {
    const std::span<const Value> items = graph_.items(attribute);
    std::vector<exec::Number> numbers;
    for (const Value& value : items) {
      const auto given = number(value);
      if (!given) return std::nullopt;
      numbers.push_back(*given);
    }
    if (is_list_of(type, c10::TypeKind::BoolType)) return bools(numbers);
    if (is_list_of(type, c10::TypeKind::FloatType)) return floats(numbers);
    if (is_list_of(type, c10::TypeKind::NumberType)) {
      c10::impl::GenericList list(c10::NumberType::get());
      for (std::size_t i = 0; i < items.size(); ++i) {
        list.push_back(c10::IValue(as_scalar(numbers[i])));
        if (Call::Slot* slot = add_slot(items[i], Call::Slot::Kind::kListItem)) slot->item = i;
      }
      return c10::IValue(list);
    }
    if (!is_int(type->cast<c10::ListType>()->getElementType())) return std::nullopt;
    c10::List<std::int64_t> list;
    for (const exec::Number& item : numbers) {
      if (!std::holds_alternative<std::int64_t>(item)) return std::nullopt;
      list.push_back(std::get<std::int64_t>(item));
    }
    return c10::IValue(std::move(list));
  }

  static std::optional<c10::IValue> bools(const std::vector<exec::Number>& numbers) {
    c10::List<bool> list;
    for (const exec::Number& item : numbers) {
      if (!std::holds_alternative<bool>(item)) return std::nullopt;
      list.push_back(std::get<bool>(item));
    }
    return c10::IValue(std::move(list));
  }

  static std::optional<c10::IValue> floats(const std::vector<exec::Number>& numbers) {
    c10::List<double> list;
    for (const exec::Number& item : numbers) list.push_back(as_scalar(item).toDouble());
    return c10::IValue(std::move(list));
  }

  const Graph& graph_;
  NodeId node_;
  c10::Device device_;
  const std::function<at::Tensor(TensorId)>& tensor_of_;
  std::span<const Operand> operands_;
  std::size_t next_ = 0;
  Call* call_ = nullptr;
};

Result<Call> Call::make(const Graph& graph, NodeId node, c10::Device device,
                        const std::function<at::Tensor(TensorId)>& tensor_of) {
  return CallBuilder(graph, node, device, tensor_of).build();
}

void Call::set_scalars(const exec::Scalars& scalars) {
  for (Slot& slot : slots_) {
    const c10::Scalar number = as_scalar(scalars[slot.scalar]);
    switch (slot.kind) {
      case Slot::Kind::kNumber:
        arguments_[slot.argument] =
            slot.as_float ? c10::IValue(number.toDouble()) : c10::IValue(number);
        break;
      case Slot::Kind::kListItem:
        arguments_[slot.argument].toList().set(slot.item, c10::IValue(number));
        break;
      case Slot::Kind::kTensor:
        if (slot.dtype == DType::kF64) {
          *slot.tensor.mutable_data_ptr<double>() = number.toDouble();
        } else if (slot.dtype == DType::kI64) {
          *slot.tensor.mutable_data_ptr<std::int64_t>() = number.toLong();
        } else {
          *slot.tensor.mutable_data_ptr<bool>() = number.toBool();
        }
        break;
    }
  }
}

void Call::run() {
  stack_.assign(arguments_.begin(), arguments_.end());
  op_.callBoxed(stack_);
}

std::vector<at::Tensor> Call::returned_tensors() const {
  std::vector<at::Tensor> tensors;
  const auto add = [&](const at::Tensor& tensor) {
    const auto is_it = [&](const at::Tensor& known) {
      return known.is_same(tensor) || (known.const_data_ptr() == tensor.const_data_ptr() &&
                                       known.is_alias_of(tensor) && known.numel() > 0);
    };
    if (tensor.defined() && std::none_of(tensors.begin(), tensors.end(), is_it)) {
      tensors.push_back(tensor);
    }
  };
  for (std::size_t i = 0; i < stack_.size(); ++i) {
    if (i < returns_operand_.size() && returns_operand_[i]) continue;
    const c10::IValue& value = stack_[i];
    if (value.isTensor()) add(value.toTensor());
    if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) add(tensor);
    }
  }
  return tensors;
}

}  // namespace ebb::torch

#include "ebb/import/tensorflow_ops.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

#include <protozero/pbf_reader.hpp>

#include "ebb/base/check.h"
#include "ebb/import/graphdef_attributes.h"
#include "ebb/import/tensorflow_types.h"

namespace ebb {
namespace {

constexpr std::string_view kTable[] = {
#include "ebb/import/tensorflow_ops.inc"
};

std::string_view next_piece(std::string_view& rest, std::string_view separator) {
  const std::size_t end = rest.find(separator);
  const std::string_view piece = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + separator.size());
  return piece;
}

int type_number(std::string_view name) {
  const auto number = find_tensorflow_type(name);
  EBB_CHECK(number.has_value(), "the table of operators names a type that there is not: {}", name);
  return *number;
}

std::vector<int> type_numbers(std::string_view names, std::string_view separator) {
  std::vector<int> types;
  while (!names.empty()) types.push_back(type_number(next_piece(names, separator)));
  return types;
}

TensorFlowArg parse_arg(std::string_view text) {
  TensorFlowArg arg;
  arg.name = next_piece(text, ":");
  if (text.ends_with("@host")) {
    arg.is_on_host = true;
    text.remove_suffix(std::string_view("@host").size());
  }
  if (text.starts_with("&")) {
    arg.is_reference = true;
    text.remove_prefix(1);
  }
  if (text.starts_with("*")) {
    arg.list_attribute = text.substr(1);
    return arg;
  }
  if (text.find('*') != std::string_view::npos) arg.count_attribute = next_piece(text, "*");
  if (const auto type = find_tensorflow_type(text)) {
    arg.type = *type;
  } else {
    arg.type_attribute = text;
  }
  return arg;
}

HostRule parse_host_rule(std::string_view text) {
  HostRule rule;
  rule.result = next_piece(text, " ");
  while (!text.empty()) {
    std::string_view condition = next_piece(text, " ");
    const std::string attribute(next_piece(condition, "="));
    rule.conditions.emplace_back(attribute, type_numbers(condition, "|"));
  }
  return rule;
}

void parse_note(std::string_view note, TensorFlowOp& op) {
  constexpr std::string_view kHost = "host ";
  if (note == "stateful") {
    op.is_stateful = true;
  } else if (note == "cpu") {
    op.has_gpu_kernel = false;
  } else if (note.starts_with(kHost)) {
    op.host_rules.push_back(parse_host_rule(note.substr(kHost.size())));
  } else {
    const std::string attribute(next_piece(note, "="));
    if (note.starts_with("[")) {
      op.list_defaults.emplace_back(attribute, type_numbers(note.substr(1, note.size() - 2), ","));
      return;
    }
    std::int64_t number = 0;
    if (std::from_chars(note.data(), note.data() + note.size(), number).ec != std::errc()) {
      number = type_number(note);
    }
    op.defaults.emplace_back(attribute, number);
  }
}

TensorFlowOp parse_line(std::string_view line) {
  TensorFlowOp op;
  std::string_view words = next_piece(line, " ; ");
  op.name = next_piece(words, " ");
  bool is_result = false;
  while (!words.empty()) {
    const std::string_view word = next_piece(words, " ");
    if (word == "->") {
      is_result = true;
    } else {
      (is_result ? op.results : op.operands).push_back(parse_arg(word));
    }
  }
  while (!line.empty()) parse_note(next_piece(line, " ; "), op);
  return op;
}

class Table {
 public:
  Table() {
    lines_.reserve(std::size(kTable));
    for (const std::string_view line : kTable) {
      const auto [known, is_new] = lines_.emplace(line.substr(0, line.find(' ')), parse_line(line));
      EBB_CHECK(is_new, "the table of operators has two lines for {}", known->first);
    }
  }
  [[nodiscard]] const TensorFlowOp* find(std::string_view name) const {
    const auto found = lines_.find(name);
    return found == lines_.end() ? nullptr : &found->second;
  }

 private:
  std::unordered_map<std::string_view, TensorFlowOp> lines_;
};

// Fields by number and wire type: another of the same number is none that we know.
constexpr std::uint32_t bytes_field(protozero::pbf_tag_type tag) {
  return protozero::tag_and_type(tag, protozero::pbf_wire_type::length_delimited);
}
constexpr std::uint32_t number_field(protozero::pbf_tag_type tag) {
  return protozero::tag_and_type(tag, protozero::pbf_wire_type::varint);
}

TensorFlowArg read_arg_def(protozero::pbf_reader arg_def) {
  TensorFlowArg arg;
  while (arg_def.next()) {
    switch (arg_def.tag_and_type()) {
      case bytes_field(1):
        arg.name = arg_def.get_string();
        break;
      case number_field(3):
        arg.type = arg_def.get_enum();
        break;
      case bytes_field(4):
        arg.type_attribute = arg_def.get_string();
        break;
      case bytes_field(5):
        arg.count_attribute = arg_def.get_string();
        break;
      case bytes_field(6):
        arg.list_attribute = arg_def.get_string();
        break;
      case number_field(16):
        arg.is_reference = arg_def.get_bool();
        break;
      default:
        arg_def.skip();
    }
  }
  return arg;
}

void read_attribute_default(protozero::pbf_reader attr_def, TensorFlowOp& op) {
  std::string name;
  std::optional<protozero::data_view> value;
  while (attr_def.next()) {
    if (attr_def.tag_and_type() == bytes_field(1)) {
      name = attr_def.get_string();
    } else if (attr_def.tag_and_type() == bytes_field(3)) {
      value = attr_def.get_view();
    } else {
      attr_def.skip();
    }
  }
  if (!value) return;
  const std::string_view attr_value(value->data(), value->size());
  if (const auto number = int_of_attr_value(attr_value)) {
    op.defaults.emplace_back(name, *number);
  } else if (has_list(attr_value)) {
    op.list_defaults.emplace_back(name, types_of_attr_value(attr_value));
  }
}

}  // namespace

const TensorFlowOp* find_tensorflow_op(std::string_view name) {
  static const Table kOperators;
  return kOperators.find(name);
}

std::vector<std::string_view> tensorflow_op_names() {
  std::vector<std::string_view> names;
  for (const std::string_view line : kTable) names.push_back(line.substr(0, line.find(' ')));
  return names;
}

std::optional<TensorFlowOp> read_op_def(std::string_view bytes) {
  TensorFlowOp op;
  try {
    protozero::pbf_reader op_def(bytes.data(), bytes.size());
    while (op_def.next()) {
      switch (op_def.tag_and_type()) {
        case bytes_field(1):
          op.name = op_def.get_string();
          break;
        case bytes_field(2):
          op.operands.push_back(read_arg_def(op_def.get_message()));
          break;
        case bytes_field(3):
          op.results.push_back(read_arg_def(op_def.get_message()));
          break;
        case bytes_field(4):
          read_attribute_default(op_def.get_message(), op);
          break;
        case number_field(17):
          op.is_stateful = op_def.get_bool();
          break;
        default:
          op_def.skip();
      }
    }
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
  return op;
}

bool is_random(const TensorFlowOp& op) {
  // Those that draw from a generator behind a handle have the handle as their effect.
  constexpr std::array<std::string_view, 3> kOthers = {
      "Multinomial", "ParameterizedTruncatedNormal", "TruncatedNormal"};
  const bool reads_handle = std::any_of(
      op.operands.begin(), op.operands.end(),
      [](const TensorFlowArg& arg) { return dtype_of_tensorflow(arg.type) == DType::kResource; });
  // What makes a handle, as a queue that shuffles, draws later and behind it.
  const bool makes_handle =
      std::any_of(op.results.begin(), op.results.end(), [](const TensorFlowArg& arg) {
        const DType dtype = dtype_of_tensorflow(arg.type);
        return arg.is_reference ||
               (arg.type != 0 && (dtype == DType::kResource || dtype == DType::kVariant));
      });
  return op.is_stateful && !reads_handle && !makes_handle &&
         (op.name.starts_with("Random") ||
          std::find(kOthers.begin(), kOthers.end(), op.name) != kOthers.end());
}

bool may_be_fed(std::string_view op) { return op == "PlaceholderWithDefault"; }

bool writes_into_operand(std::string_view op) {
  constexpr std::array<std::string_view, 4> kOps = {"InplaceAdd", "InplaceSub", "InplaceUpdate",
                                                    "_ParallelConcatUpdate"};
  return std::find(kOps.begin(), kOps.end(), op) != kOps.end();
}

}  // namespace ebb

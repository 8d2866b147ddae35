#include "ebb/import/functiondef.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "ebb/import/graphdef_attributes.h"
#include "ebb/import/graphdef_error.h"
#include "ebb/import/graphdef_node.h"
#include "ebb/import/graphdef_results.h"

namespace ebb {
namespace {

// Fields of GraphDef, FunctionDefLibrary and FunctionDef.
constexpr protozero::pbf_tag_type kLibrary = 2;
constexpr protozero::pbf_tag_type kFunction = 1;
constexpr protozero::pbf_tag_type kSignature = 1;
constexpr protozero::pbf_tag_type kNode = 3;
constexpr protozero::pbf_tag_type kArgAttributes = 7;

std::string_view view_of(protozero::data_view data) { return {data.data(), data.size()}; }

tl::unexpected<Error> refuse(std::string message) {
  return refuse_graphdef("G12", std::move(message));
}

// Calls visit(tag, whole field, its content) for every field; the content of one that is not
// length-delimited is empty.
template <class Visit>
void for_each_field(std::string_view message, Visit visit) {
  protozero::pbf_reader reader(message.data(), message.size());
  while (true) {
    const std::size_t start = message.size() - reader.length();
    if (!reader.next()) return;
    std::string_view content;
    if (reader.wire_type() == protozero::pbf_wire_type::length_delimited) {
      content = view_of(reader.get_view());
    } else {
      reader.skip();
    }
    visit(reader.tag(), message.substr(start, message.size() - reader.length() - start), content);
  }
}

std::string_view signature_of(std::string_view function) {
  std::string_view signature;
  for_each_field(function, [&](auto tag, std::string_view, std::string_view content) {
    if (tag == kSignature) signature = content;
  });
  return signature;
}

using ArgAttributes = std::vector<std::pair<std::string, std::string>>;

// By the number of the argument.
std::map<std::uint32_t, ArgAttributes> arg_attributes_of(std::string_view function) {
  std::map<std::uint32_t, ArgAttributes> all;
  for_each_field(function, [&](auto tag, std::string_view, std::string_view entry) {
    if (tag != kArgAttributes) return;
    std::uint32_t number = 0;
    ArgAttributes attributes;
    protozero::pbf_reader reader(entry.data(), entry.size());
    while (reader.next()) {
      if (reader.tag() == 1) {
        number = reader.get_uint32();
      } else if (reader.tag() == 2) {
        for_each_field(
            view_of(reader.get_view()), [&](auto, std::string_view, std::string_view attribute) {
              std::pair<std::string, std::string> read;
              for_each_field(attribute, [&](auto part, std::string_view, std::string_view content) {
                (part == 1 ? read.first : read.second) = content;
              });
              attributes.push_back(std::move(read));
            });
      } else {
        reader.skip();
      }
    }
    all.emplace(number, std::move(attributes));
  });
  return all;
}

// The nodes of a body as the function has them, in a GraphDef.
std::string raw_nodes(std::string_view function) {
  std::string graphdef;
  for_each_field(function, [&](auto tag, std::string_view, std::string_view content) {
    if (tag == kNode) append_node(graphdef, content);
  });
  return graphdef;
}

// What each result of a node is called in a body: "product:0", in order.
Result<std::vector<std::string>> result_names(const NodeDefView& node, const TensorFlowOp* op) {
  if (op == nullptr) {
    return refuse(fmt::format("'{}' is of an operator that is not known: {}", printable(node.name),
                              printable(node.op)));
  }
  const auto counts = count_results(node, *op);
  if (!counts) return fail(counts.error());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < counts->size(); ++i) {
    for (std::size_t k = 0; k < (*counts)[i]; ++k) {
      names.push_back(fmt::format("{}:{}", op->results[i].name, k));
    }
  }
  return names;
}

// Result names of the nodes of a body, by node; arguments have none.
using ResultNames = std::unordered_map<std::string, std::vector<std::string>>;

Result<std::string> in_graph(std::string_view input, const ResultNames& names) {
  if (input.starts_with('^')) return std::string(input);
  const std::size_t colon = input.find(':');
  if (colon == std::string_view::npos) return std::string(input);  // an argument
  const std::string node(input.substr(0, colon));
  std::string result(input.substr(colon + 1));
  if (result.find(':') == std::string::npos) result += ":0";
  const auto known = names.find(node);
  if (known != names.end()) {
    const auto at = std::find(known->second.begin(), known->second.end(), result);
    if (at != known->second.end()) {
      return input_text(node, static_cast<std::uint32_t>(at - known->second.begin()));
    }
  }
  return refuse(fmt::format("there is no '{}' in the function", printable(input)));
}

Result<std::string> in_function(std::string_view input, const ResultNames& names) {
  const auto read = read_input(input);
  if (!read) return refuse(fmt::format("'{}' is no input", printable(input)));
  if (read->is_control) return std::string(input);
  const auto known = names.find(std::string(read->node));
  if (known == names.end()) return std::string(read->node);  // an argument
  if (read->result >= known->second.size()) {
    return refuse(fmt::format("there is no '{}' in the function", printable(input)));
  }
  return fmt::format("{}:{}", read->node, known->second[read->result]);
}

Result<std::vector<std::string>> translate(const std::vector<std::string_view>& inputs,
                                           const ResultNames& names, auto into) {
  std::vector<std::string> out;
  for (const std::string_view input : inputs) {
    auto translated = into(input, names);
    if (!translated) return fail(translated.error());
    out.push_back(std::move(*translated));
  }
  return out;
}

}  // namespace

Result<FunctionLibrary> FunctionLibrary::read(std::string_view graphdef) {
  FunctionLibrary library;
  try {
    for_each_field(graphdef, [&](auto tag, std::string_view, std::string_view content) {
      if (tag != kLibrary) return;
      for_each_field(content, [&](auto inner, std::string_view, std::string_view function) {
        if (inner != kFunction) return;
        auto signature = read_op_def(signature_of(function));
        if (!signature) return;
        library.functions_.push_back({signature->name, function});
        library.signatures_.emplace(signature->name, std::move(*signature));
      });
    });
  } catch (const protozero::exception&) {
    return refuse("the library of functions is damaged");
  }
  return library;
}

const LibraryFunction* FunctionLibrary::find(std::string_view name) const {
  const auto found = std::find_if(functions_.begin(), functions_.end(),
                                  [&](const LibraryFunction& each) { return each.name == name; });
  return found == functions_.end() ? nullptr : &*found;
}

const TensorFlowOp* FunctionLibrary::find_op(std::string_view name) const {
  const auto function = signatures_.find(name);
  return function != signatures_.end() ? &function->second : find_tensorflow_op(name);
}

Result<std::string> FunctionLibrary::body(const LibraryFunction& function) const {
  try {
    const std::string raw = raw_nodes(function.bytes);
    const auto nodes = read_graphdef(raw);
    if (!nodes) return fail(nodes.error());
    ResultNames names;
    for (const NodeDefView& node : nodes->nodes) {
      auto results = result_names(node, find_op(node.op));
      if (!results) return fail(results.error());
      names.emplace(node.name, std::move(*results));
    }
    std::string out;
    const auto arg_attributes = arg_attributes_of(function.bytes);
    const TensorFlowOp& signature = signatures_.find(function.name)->second;
    for (std::uint32_t i = 0; i < signature.operands.size(); ++i) {
      const TensorFlowArg& arg = signature.operands[i];
      if (arg.type == 0 || !arg.count_attribute.empty()) {
        return refuse(fmt::format("the type of its argument '{}' is given by who calls it",
                                  printable(arg.name)));
      }
      NodeDefParts parts{.name = arg.name,
                         .op = "_Arg",
                         .device = {},
                         .inputs = {},
                         .attributes = {{"T", type_attr_value(arg.type)}},
                         .rest = {}};
      const auto known = arg_attributes.find(i);
      if (known != arg_attributes.end()) {
        for (const auto& each : known->second) parts.attributes.push_back(each);
      }
      append_node(out, write_node(parts));
    }
    for (const NodeDefView& node : nodes->nodes) {
      const auto inputs = translate(node.inputs, names, in_graph);
      if (!inputs) return fail(inputs.error());
      append_node(out, with_inputs(node.bytes, *inputs));
    }
    return out;
  } catch (const protozero::exception&) {
    return refuse("it is damaged");
  }
}

Result<std::string> FunctionLibrary::with_body(const LibraryFunction& function,
                                               std::string_view before,
                                               std::string_view after) const {
  const std::string raw = raw_nodes(function.bytes);
  const auto own = read_graphdef(raw);
  const auto old_nodes = read_graphdef(before);
  const auto new_nodes = read_graphdef(after);
  if (!own || !old_nodes || !new_nodes) return refuse("its body is damaged");
  std::unordered_map<std::string_view, std::string_view> own_bytes;
  for (const NodeDefView& node : own->nodes) own_bytes.emplace(node.name, node.bytes);
  std::unordered_map<std::string_view, std::string_view> old_bytes;
  for (const NodeDefView& node : old_nodes->nodes) old_bytes.emplace(node.name, node.bytes);
  ResultNames names;
  for (const NodeDefView& node : new_nodes->nodes) {
    if (node.op == "_Arg") continue;
    auto results = result_names(node, find_op(node.op));
    if (!results) return fail(results.error());
    names.emplace(node.name, std::move(*results));
  }
  std::string nodes;
  protozero::pbf_writer writer(nodes);
  for (const NodeDefView& node : new_nodes->nodes) {
    if (node.op == "_Arg") continue;
    const auto was = old_bytes.find(node.name);
    std::string bytes;
    if (was != old_bytes.end() && was->second == node.bytes) {
      bytes = own_bytes.at(node.name);
    } else {
      const auto inputs = translate(node.inputs, names, in_function);
      if (!inputs) return fail(inputs.error());
      bytes = with_inputs(was == old_bytes.end() ? node.bytes : own_bytes.at(node.name), *inputs);
    }
    writer.add_message(kNode, bytes);
  }
  std::string out;
  bool are_written = false;
  for_each_field(function.bytes, [&](auto tag, std::string_view field, std::string_view) {
    if (tag != kNode) {
      out += field;
    } else if (!are_written) {
      out += nodes;
      are_written = true;
    }
  });
  return out;
}

bool FunctionLibrary::same_around_body(const LibraryFunction& a, const LibraryFunction& b) {
  const auto without_nodes = [](std::string_view function) {
    std::string out;
    for_each_field(function, [&](auto tag, std::string_view field, std::string_view) {
      if (tag != kNode) out += field;
    });
    return out;
  };
  return without_nodes(a.bytes) == without_nodes(b.bytes);
}

std::string with_functions(std::string_view graphdef,
                           const std::map<std::string, std::string, std::less<>>& changed) {
  std::string out;
  for_each_field(graphdef, [&](auto tag, std::string_view field, std::string_view content) {
    if (tag != kLibrary) {
      out += field;
      return;
    }
    std::string library;
    for_each_field(content, [&](auto inner, std::string_view part, std::string_view function) {
      const auto signature =
          inner == kFunction ? read_op_def(signature_of(function)) : std::nullopt;
      const auto other = signature ? changed.find(signature->name) : changed.end();
      if (other == changed.end()) {
        library += part;
      } else {
        protozero::pbf_writer(library).add_message(kFunction, other->second);
      }
    });
    protozero::pbf_writer(out).add_message(kLibrary, library);
  });
  return out;
}

}  // namespace ebb

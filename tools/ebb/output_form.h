// The forms in which a command writes a graph.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ebb/base/result.h"
#include "ebb/graph/graph.h"
#include "input.h"

namespace ebb::tool {

enum class Form : std::uint8_t { kEbb, kDot, kPb, kPbtxt };

// "pb", as --to has it.
std::string_view to_text(Form form);
std::optional<Form> form_called(std::string_view name);
// By .ebb, .dot and .gv, .pb, .pbtxt.
std::optional<Form> form_of_suffix(const std::string& path);
// The form that it came in.
Form form_of(const InputGraph& input);

constexpr bool is_tensorflow(Form form) { return form == Form::kPb || form == Form::kPbtxt; }

// A graph that was made of `input`, or its own, in this form. As a file of TensorFlow's it goes
// back into the file that it came from, of which all else stays as it is; a graph from a text
// becomes a GraphDef. One that never came from TensorFlow is an error that names the text.
[[nodiscard]] Result<std::string> in_form(Form form, const InputGraph& input, const Graph& graph,
                                          const TensorFlowOptions& options);

// A file of TensorFlow's in the other of its two forms, whatever it holds.
[[nodiscard]] Result<std::string> in_form(Form form, const TensorFlowFile& file);

}  // namespace ebb::tool

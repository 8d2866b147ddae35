// Values for the runtime scalars that a step declares: from the state file's metadata, where they
// stand as `scalar.NAME` and, for the first step only, `first.NAME`; and from the command line.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/exec/scalars.h"
#include "ebb/graph/graph.h"

namespace ebb::tool {

using Metadata = std::map<std::string, std::string>;
using NamedNumbers = std::map<std::string, exec::Number>;

struct ScalarValues {
  NamedNumbers first;  // for the first step
  NamedNumbers later;
};

// "0.1", "-3", "true", "inf", and "0x1.8p-4" as Python's float.hex() writes it.
[[nodiscard]] Result<exec::Number> parse_number(std::string_view text);
// Reads back to the same number.
std::string exact_text(const exec::Number& number);

// One value for each scalar of the graph. `given` are NAME=VALUE of the command line, and count in
// all steps; `file` is how messages call the state file.
[[nodiscard]] Result<ScalarValues> scalar_values(const Graph& graph, const Metadata& metadata,
                                                 const std::vector<std::string>& given,
                                                 const std::string& file);

// The metadata that say the values of later steps.
Metadata scalar_metadata(const NamedNumbers& values);

}  // namespace ebb::tool

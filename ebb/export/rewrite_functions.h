// The paper's driver on the functions in a GraphDef's library: a training step that was written as
// a tf.function is one of them, and the graph only calls it.
//
// A function is rewritten where its body has a backward phase of its own and can be read by itself;
// the others are left alone, with the reason.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/base/units.h"
#include "ebb/export/graphdef.h"
#include "ebb/import/graphdef.h"
#include "ebb/rewrite/lms.h"
#include "ebb/rewrite/proof.h"

namespace ebb {

struct FunctionOutcome {
  std::string name;
  std::string left_alone;  // why; empty when it was rewritten
  std::size_t tensors_swapped = 0;
  std::size_t swap_ins = 0;
  Bytes bytes_swapped;
};

struct FunctionsRewritten {
  std::string graphdef;
  std::vector<FunctionOutcome> functions;  // all of them, in the library's order
};

[[nodiscard]] Result<FunctionsRewritten> rewrite_functions(std::string_view graphdef,
                                                           const LmsOptions& lms,
                                                           const GraphDefOptions& reading,
                                                           const GraphDefExport& writing);

// By gradient scopes.
bool has_backward_phase(const Graph& graph);

// The first function whose body has a backward phase of its own; empty: there is none that can be
// read.
[[nodiscard]] Result<std::string> find_training_function(std::string_view graphdef,
                                                         const GraphDefOptions& reading);

bool was_any_rewritten(const std::vector<FunctionOutcome>& functions);

// For people: one line for each that was rewritten, and one for the others with each reason.
std::string functions_summary(const std::vector<FunctionOutcome>& functions);

// For programs: the JSON object `json` with a list `functions` more.
std::string with_functions_json(const std::string& json,
                                const std::vector<FunctionOutcome>& functions);

// Whether the functions of two GraphDefs are the same computations: as many, of the same names,
// each with the same bytes or proved. An error (kRefused) names the function.
[[nodiscard]] Result<std::size_t> prove_functions(std::string_view original,
                                                  std::string_view rewritten,
                                                  const GraphDefOptions& reading);

// The second GraphDef with the functions of the first.
std::string with_functions_of(std::string_view original, std::string_view rewritten);

}  // namespace ebb

// The functions in a GraphDef's library, each body as a GraphDef of its own.
//
//   Result<FunctionLibrary> library = FunctionLibrary::read(graphdef);
//   for (const LibraryFunction& function : library->functions())
//     Result<std::string> body = library->body(function);   // import_graphdef(*body), and so on
//
// Arguments become `_Arg` nodes, and inputs are written as in graphs: 'a:1' for result 1, where a
// body has 'a:name:0'. What a function returns is no part of the body.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/import/tensorflow_ops.h"

namespace ebb {

struct LibraryFunction {
  std::string name;
  std::string_view bytes;  // the FunctionDef, in the GraphDef
};

class FunctionLibrary {
 public:
  // Reads the library, field 2 of the GraphDef, which must outlive this object.
  [[nodiscard]] static Result<FunctionLibrary> read(std::string_view graphdef);

  [[nodiscard]] const std::vector<LibraryFunction>& functions() const { return functions_; }
  [[nodiscard]] const LibraryFunction* find(std::string_view name) const;

  // Errors say why the body cannot stand alone, as that its types are given by who calls it.
  [[nodiscard]] Result<std::string> body(const LibraryFunction& function) const;
  // The FunctionDef with a body that was made of the one above. Nodes that did not change keep
  // their bytes.
  [[nodiscard]] Result<std::string> with_body(const LibraryFunction& function,
                                              std::string_view before,
                                              std::string_view after) const;

  // Whether two functions differ in their bodies alone.
  [[nodiscard]] static bool same_around_body(const LibraryFunction& a, const LibraryFunction& b);

 private:
  [[nodiscard]] const TensorFlowOp* find_op(std::string_view name) const;

  std::vector<LibraryFunction> functions_;
  std::map<std::string, TensorFlowOp, std::less<>> signatures_;  // what is called by its name
};

// The GraphDef with other functions; those that are not in the map stay as they are.
std::string with_functions(std::string_view graphdef,
                           const std::map<std::string, std::string, std::less<>>& changed);

}  // namespace ebb

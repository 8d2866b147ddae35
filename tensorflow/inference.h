// What TensorFlow knows of a graph that Grappler shows us: shapes, and operators' definitions.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api.h"
#include "ebb/graph/type.h"

namespace ebb::grappler {

// The shape in a serialized OpInfo.TensorProperties, where scalars have none. Bytes that are none
// throw what protozero throws.
TensorType shape_in_properties(std::string_view properties);

// Answers are looked up when they are asked for. The buffer, the item and the functions must live
// as long; one thread at a time.
class Inference {
 public:
  Inference(const TensorFlowApi& api, const TF_Buffer* graph, const TF_GrapplerItem* item);

  // Of an output; nullopt where TensorFlow does not know, or could not infer at all.
  std::optional<TensorType> shape_of(std::string_view node, int output);
  // Serialized; nullopt for an operator that this process does not have.
  std::optional<std::string> op_def(std::string_view op);
  // Whether the node is one that TensorFlow's optimizer must preserve: those that a session feeds
  // are among these.
  bool is_preserved(std::string_view node);
  // Why nothing could be inferred; empty when it could.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  // That TensorFlow's inference of shapes took.
  [[nodiscard]] double seconds() const { return seconds_; }

 private:
  template <class T>
  using Owned = std::unique_ptr<T, void (*)(T*)>;

  [[nodiscard]] bool ok() const;
  void infer();
  void find_preserved();
  const std::vector<std::optional<TensorType>>& shapes_of(std::string_view node);

  const TensorFlowApi& api_;
  const TF_Buffer* graph_;
  const TF_GrapplerItem* item_;
  Owned<TF_Status> status_;
  Owned<TF_GraphProperties> properties_;
  Owned<TF_FunctionLibraryDefinition> library_;
  bool has_inferred_ = false;
  std::string problem_;
  double seconds_ = 0;
  bool knows_preserved_ = false;
  std::set<std::string, std::less<>> preserved_;
  std::string last_node_;  // outputs of one node are asked for in a row
  std::vector<std::optional<TensorType>> last_shapes_;
};

}  // namespace ebb::grappler

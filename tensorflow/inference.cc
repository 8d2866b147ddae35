#include "inference.h"

#include <chrono>

#include <protozero/pbf_reader.hpp>

namespace ebb::grappler {
namespace {

// Field numbers of TensorFlow's op_performance_data.proto (OpInfo.TensorProperties) and
// tensor_shape.proto.
constexpr protozero::pbf_tag_type kPropertiesShape = 2;
constexpr protozero::pbf_tag_type kShapeDim = 2;
constexpr protozero::pbf_tag_type kShapeUnknownRank = 3;
constexpr protozero::pbf_tag_type kDimSize = 1;

// Sizes that inference merely found to be equal to each other are numbered below -1.
std::int64_t read_dim(protozero::pbf_reader dim) {
  std::int64_t size = 0;
  while (dim.next()) {
    if (dim.tag() == kDimSize) {
      size = dim.get_int64();
    } else {
      dim.skip();
    }
  }
  return size < 0 ? TensorType::kUnknownDim : size;
}

TensorType read_shape(protozero::pbf_reader shape) {
  TensorType type;
  while (shape.next()) {
    switch (shape.tag()) {
      case kShapeDim:
        type.dims.push_back(read_dim(shape.get_message()));
        break;
      case kShapeUnknownRank:
        type.ranked = !shape.get_bool();
        break;
      default:
        shape.skip();
    }
  }
  if (!type.ranked) type.dims.clear();
  return type;
}

}  // namespace

TensorType shape_in_properties(std::string_view properties) {
  protozero::pbf_reader reader(properties.data(), properties.size());
  TensorType shape;  // of no dimension, where nothing is said: an unknown shape is said to be so
  while (reader.next()) {
    if (reader.tag() == kPropertiesShape) {
      shape = read_shape(reader.get_message());
    } else {
      reader.skip();
    }
  }
  return shape;
}

Inference::Inference(const TensorFlowApi& api, const TF_Buffer* graph, const TF_GrapplerItem* item)
    : api_(api),
      graph_(graph),
      item_(item),
      status_(api.TF_NewStatus(), api.TF_DeleteStatus),
      properties_(nullptr, api.TF_DeleteGraphProperties),
      library_(nullptr, api.TF_DeleteFunctionLibraryDefinition) {}

bool Inference::ok() const { return api_.TF_GetCode(status_.get()) == TF_OK; }

void Inference::infer() {
  has_inferred_ = true;
  const auto start = std::chrono::steady_clock::now();
  properties_.reset(api_.TF_NewGraphProperties(item_));
  // A function's arguments are feeds: what is said of their shapes, and of variables' behind
  // handles, holds.
  api_.TF_InferStatically(properties_.get(), /*assume_valid_feeds=*/1,
                          /*aggressive_shape_inference=*/0, /*include_input_tensor_values=*/0,
                          /*include_output_tensor_values=*/0, status_.get());
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (ok()) return;
  problem_ = api_.TF_Message(status_.get());
  properties_.reset();
}

const std::vector<std::optional<TensorType>>& Inference::shapes_of(std::string_view node) {
  if (node == last_node_) return last_shapes_;
  last_node_ = node;
  last_shapes_.clear();
  int count = 0;
  api_.TF_GetOutputPropertiesListSize(properties_.get(), last_node_.c_str(), &count, status_.get());
  if (!ok() || count <= 0) return last_shapes_;
  std::vector<Owned<TF_Buffer>> owned;
  std::vector<TF_Buffer*> buffers;
  for (int i = 0; i < count; ++i) {
    owned.emplace_back(api_.TF_NewBuffer(), api_.TF_DeleteBuffer);
    buffers.push_back(owned.back().get());
  }
  api_.TF_GetOutputPropertiesList(properties_.get(), last_node_.c_str(), buffers.data(), count,
                                  status_.get());
  if (!ok()) return last_shapes_;
  for (const TF_Buffer* buffer : buffers) {
    const std::string_view properties(static_cast<const char*>(buffer->data), buffer->length);
    last_shapes_.emplace_back(shape_in_properties(properties));
  }
  return last_shapes_;
}

std::optional<TensorType> Inference::shape_of(std::string_view node, int output) {
  if (!has_inferred_) infer();
  if (properties_ == nullptr) return std::nullopt;
  const auto& shapes = shapes_of(node);
  const auto index = static_cast<std::size_t>(output);
  return output >= 0 && index < shapes.size() ? shapes[index] : std::nullopt;
}

bool Inference::is_preserved(std::string_view node) {
  if (!knows_preserved_) find_preserved();
  return preserved_.contains(node);
}

void Inference::find_preserved() {
  knows_preserved_ = true;
  int count = 0;
  std::size_t bytes = 0;
  api_.TF_GetNodesToPreserveListSize(item_, &count, &bytes, status_.get());
  if (!ok() || count <= 0) return;
  std::vector<char*> names(static_cast<std::size_t>(count));
  std::vector<std::size_t> lengths(names.size());
  std::vector<char> storage(bytes);
  api_.TF_GetNodesToPreserveList(item_, names.data(), lengths.data(), count, storage.data(), bytes,
                                 status_.get());
  if (!ok()) return;
  for (std::size_t i = 0; i < names.size(); ++i) preserved_.emplace(names[i], lengths[i]);
}

std::optional<std::string> Inference::op_def(std::string_view op) {
  if (library_ == nullptr) {
    library_.reset(api_.TF_NewFunctionLibraryDefinition(graph_, status_.get()));
    if (!ok() || library_ == nullptr) return std::nullopt;
  }
  const Owned<TF_Buffer> buffer(api_.TF_NewBuffer(), api_.TF_DeleteBuffer);
  api_.TF_LookUpOpDef(library_.get(), std::string(op).c_str(), buffer.get(), status_.get());
  if (!ok()) return std::nullopt;
  return std::string(static_cast<const char*>(buffer->data), buffer->length);
}

}  // namespace ebb::grappler

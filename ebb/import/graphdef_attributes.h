// TensorFlow's AttrValue in our attribute values and back.
//
// Numbers, booleans, texts, element types and lists of these are values; shapes, tensors, functions
// and everything else stay the bytes of the AttrValue, opaque. Either way the same bytes come back.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/graph/edit.h"
#include "ebb/graph/graph.h"

namespace ebb {

// Adds what the AttrValue says to the node.
void add_attr_value(GraphEdit& edit, const Graph& graph, NodeId node, std::string_view key,
                    std::string_view attr_value);

// The AttrValue again.
std::string attr_value_of(const Graph& graph, const Attribute& attribute);

// AttrValues made, for nodes that we add.
std::string text_attr_value(std::string_view text);
std::string bool_attr_value(bool value);
std::string type_attr_value(int tensorflow_type);
std::string shapes_attr_value(const TensorType& type);  // a list of one shape

// What one says, where it says such a thing.
std::optional<std::int64_t> int_of_attr_value(std::string_view attr_value);  // i, or type
std::optional<std::string_view> text_of_attr_value(std::string_view attr_value);
bool has_list(std::string_view attr_value);
std::vector<int> types_of_attr_value(std::string_view attr_value);  // list(type)
// A shape: a TensorShapeProto's dimensions, -1 for one that is not known; nullopt: not even their
// number is.
using TensorFlowShape = std::optional<std::vector<std::int64_t>>;
std::optional<TensorFlowShape> shape_of_attr_value(std::string_view attr_value);
std::vector<TensorFlowShape> shapes_of_attr_value(std::string_view attr_value);  // list(shape)
std::optional<TensorFlowShape> shape_of_tensor_attr_value(std::string_view attr_value);
// The elements of a TensorProto of i32 or i64, in row-major order; nullopt where it is none, or has
// more than `most` of them.
std::optional<std::vector<std::int64_t>> ints_of_tensor_attr_value(std::string_view attr_value,
                                                                   std::size_t most);
TensorFlowShape read_shape(std::string_view tensor_shape_proto);

}  // namespace ebb

#include "ebb/import/graphdef_attributes.h"

#include <array>
#include <bit>
#include <limits>

#include <gtest/gtest.h>
#include <protozero/pbf_writer.hpp>

#include "ebb/import/graphdef_for_tests.h"

namespace ebb {
namespace {

// The attribute as the graph has it, and the AttrValue that comes of that.
struct There {
  explicit There(std::string_view attr_value) {
    GraphEdit edit(graph);
    const NodeId node = edit.add_node(NodeKind::kOp, "tf::X");
    add_attr_value(edit, graph, node, "k", attr_value);
  }
  [[nodiscard]] const Attribute& attribute() const { return graph.attributes(NodeId(0))[0]; }
  [[nodiscard]] bool is_opaque() const {
    return std::holds_alternative<Blob>(graph.items(attribute())[0]);
  }
  [[nodiscard]] std::string back() const { return attr_value_of(graph, attribute()); }
  Graph graph;
};

template <class Write>
std::string written(Write write) {
  std::string out;
  protozero::pbf_writer writer(out);
  write(writer);
  return out;
}
template <class Write>
std::string written_list(Write write) {
  return written([&](protozero::pbf_writer& writer) {
    protozero::pbf_writer list(writer, 1);
    write(list);
  });
}

TEST(GraphDefAttributes, OneValueOfEachKindIsAValueAndComesBack) {
  const std::vector<std::string> values = {
      for_tests::text_of("SAME"),
      for_tests::text_of(""),
      for_tests::number_of(0),
      for_tests::number_of(-1),
      for_tests::number_of(std::numeric_limits<std::int64_t>::min()),
      for_tests::type_of(1),
      for_tests::type_of(20),
      written([](auto& w) { w.add_bool(5, false); }),
      written([](auto& w) { w.add_bool(5, true); }),
      written([](auto& w) { w.add_float(4, -0.0F); }),
      written([](auto& w) { w.add_float(4, std::numeric_limits<float>::denorm_min()); }),
      written([](auto& w) { w.add_float(4, -std::numeric_limits<float>::infinity()); }),
  };
  for (const std::string& value : values) {
    const There there(value);
    EXPECT_FALSE(there.is_opaque());
    EXPECT_FALSE(there.attribute().is_list);
    EXPECT_EQ(there.back(), value);
  }
}

TEST(GraphDefAttributes, ListsOfOneKindAreListsAndComeBack) {
  const std::vector<std::int64_t> numbers = {1, -2, std::numeric_limits<std::int64_t>::max()};
  const std::vector<float> floats = {0.5F, -0.0F};
  const std::vector<bool> flags = {true, false};
  const std::vector<std::string> values = {
      written_list([&](auto& w) { w.add_packed_int64(3, numbers.begin(), numbers.end()); }),
      written_list([&](auto& w) { w.add_packed_float(4, floats.begin(), floats.end()); }),
      written_list([&](auto& w) { w.add_packed_bool(5, flags.begin(), flags.end()); }),
      written_list([](auto& w) {
        w.add_string(2, "a");
        w.add_string(2, "");
      }),
      for_tests::types_of({1, 3, 20}),
  };
  for (const std::string& value : values) {
    const There there(value);
    EXPECT_FALSE(there.is_opaque());
    EXPECT_TRUE(there.attribute().is_list);
    EXPECT_EQ(there.back(), value);
  }
}

TEST(GraphDefAttributes, WhatWouldNotComeBackStaysBytes) {
  const std::vector<std::int64_t> numbers = {7};
  const std::string one = for_tests::number_of(1);
  const std::vector<std::string> values = {
      "",                                                     // no value at all
      written_list([](auto&) {}),                             // an empty list
      written([](auto& w) { w.add_bytes(2, "\xff", 1); }),    // no UTF-8
      written([](auto& w) { w.add_enum(6, 101); }),           // a reference
      written([](auto& w) { w.add_enum(6, 11); }),            // one of several types of ours
      written([](auto& w) { w.add_enum(6, 1000); }),          // no type at all
      written([](auto& w) { w.add_uint64(5, 2); }),           // a bool that is 2
      written([](auto& w) { w.add_fixed64(3, 2); }),          // another wire type
      written([](auto& w) { w.add_bytes(4, "ab", 2); }),      // likewise
      one + one,                                              // twice
      one + written([](auto& w) { w.add_bool(99, true); }),   // with an unknown field
      written([](auto& w) { w.add_message(10, "abc", 3); }),  // a function
      written_list([](auto& w) { w.add_int64(3, 7); }),       // not packed
      written_list([](auto& w) {
        w.add_int64(3, 7);
        w.add_string(2, "a");
      }),
      written_list([](auto& w) { w.add_bool(99, true); }),
      for_tests::shapes_of({{1, 2}, {}}),
      for_tests::types_of({1, 101}),
      std::string("\x18\x81\x00", 3),  // 1 in two bytes
  };
  for (const std::string& value : values) {
    const There there(value);
    EXPECT_TRUE(there.is_opaque()) << value;
    EXPECT_EQ(there.back(), value);
  }
}

TEST(GraphDefAttributes, NotANumberKeepsItsBits) {
  for (const std::uint32_t bits : {0x7FC00000U, 0x7FC12345U, 0xFF800001U}) {
    const auto value = std::bit_cast<float>(bits);
    std::string one = "\x25";
    for (int i = 0; i < 4; ++i) one += static_cast<char>(bits >> (8 * i));
    EXPECT_EQ(There(one).back(), one);
    const std::string list =
        written_list([&](auto& w) { w.add_packed_float(4, &value, &value + 1); });
    EXPECT_TRUE(There(list).is_opaque());
    EXPECT_EQ(There(list).back(), list);
  }
}

TEST(GraphDefAttributes, DamagedValuesStayBytes) {
  for (const std::string_view value : {"\x0a", "\x0a\x02\x1a", "\x18", "\x0a\x03\x1a\x01\xff"}) {
    EXPECT_EQ(There(value).back(), value);
  }
}

TEST(GraphDefAttributes, TheLastOfSeveralValuesCounts) {
  EXPECT_EQ(int_of_attr_value(for_tests::type_of(1) + for_tests::type_of(3)), 3);
  EXPECT_EQ(text_of_attr_value(for_tests::text_of("a") + for_tests::text_of("b")), "b");
  EXPECT_EQ(int_of_attr_value(written([](auto& w) { w.add_fixed32(3, 2); })), std::nullopt);
}

TEST(GraphDefAttributes, ShapesAreRead) {
  const auto shapes = shapes_of_attr_value(for_tests::shapes_of({{2, -5}, {}}));
  ASSERT_EQ(shapes.size(), 2U);
  EXPECT_EQ(shapes[0], TensorFlowShape(std::vector<std::int64_t>{2, -1}));
  EXPECT_EQ(shapes[1], TensorFlowShape(std::vector<std::int64_t>{}));
  EXPECT_EQ(read_shape(written([](auto& w) { w.add_bool(3, true); })), std::nullopt);
  EXPECT_EQ(read_shape(written([](auto& w) { w.add_bool(3, false); })),
            TensorFlowShape(std::vector<std::int64_t>{}));
}

// A TensorProto of this type and shape.
template <class Write>
std::string tensor_value(int type, const std::vector<std::int64_t>& dims, Write write) {
  return written([&](auto& value) {
    protozero::pbf_writer tensor(value, 8);
    tensor.add_enum(1, type);
    {
      protozero::pbf_writer shape(tensor, 2);
      for (const std::int64_t size : dims) {
        protozero::pbf_writer dim(shape, 2);
        dim.add_int64(1, size);
      }
    }
    write(tensor);
  });
}

TEST(GraphDefAttributes, NumbersOfATensor) {
  using Ints = std::vector<std::int64_t>;
  const auto nothing = [](auto&) {};
  EXPECT_EQ(ints_of_tensor_attr_value(for_tests::ints_of({3, -1}), 64), (Ints{3, -1}));
  EXPECT_EQ(ints_of_tensor_attr_value(for_tests::ints_of({7}, false), 64), Ints{7});
  EXPECT_EQ(ints_of_tensor_attr_value(tensor_value(3, {3}, nothing), 64), (Ints{0, 0, 0}));
  EXPECT_EQ(ints_of_tensor_attr_value(
                tensor_value(3, {3}, [](auto& tensor) { tensor.add_int32(7, 5); }), 64),
            (Ints{5, 5, 5}))
      << "the last one counts for all behind it";
  const std::array<std::int64_t, 2> wide = {-2, std::int64_t{1} << 40};
  EXPECT_EQ(ints_of_tensor_attr_value(
                tensor_value(9, {2},
                             [&](auto& tensor) {
                               tensor.add_bytes(4, reinterpret_cast<const char*>(wide.data()),
                                                sizeof wide);
                             }),
                64),
            (Ints{-2, std::int64_t{1} << 40}));
  const std::array<std::int32_t, 2> narrow = {-2, 9};
  EXPECT_EQ(ints_of_tensor_attr_value(
                tensor_value(3, {2, 1},
                             [&](auto& tensor) {
                               tensor.add_bytes(4, reinterpret_cast<const char*>(narrow.data()),
                                                sizeof narrow);
                             }),
                64),
            (Ints{-2, 9}));
}

TEST(GraphDefAttributes, WhatIsNoSmallTensorOfNumbersHasNone) {
  const auto nothing = [](auto&) {};
  EXPECT_EQ(ints_of_tensor_attr_value(tensor_value(1, {2}, nothing), 64), std::nullopt);
  EXPECT_EQ(ints_of_tensor_attr_value(tensor_value(3, {65}, nothing), 64), std::nullopt);
  EXPECT_EQ(ints_of_tensor_attr_value(tensor_value(3, {1, -1}, nothing), 64), std::nullopt);
  EXPECT_EQ(ints_of_tensor_attr_value(for_tests::number_of(3), 64), std::nullopt);
  EXPECT_EQ(ints_of_tensor_attr_value("\x42\x7f", 64), std::nullopt) << "cut off";
  const std::string more = tensor_value(3, {1}, [](auto& tensor) {
    tensor.add_int32(7, 1);
    tensor.add_int32(7, 2);
  });
  EXPECT_EQ(ints_of_tensor_attr_value(more, 64), std::nullopt);
}

}  // namespace
}  // namespace ebb

#include "ebb/import/textproto.h"

#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebb {
namespace {

using ::testing::HasSubstr;

std::string bytes_of(std::string_view text) {
  const auto bytes = graphdef_from_text(text);
  EXPECT_TRUE(bytes) << bytes.error().render("text");
  return bytes.value_or("refused");
}

// "line:column: message"
std::string refusal(std::string_view text) {
  const auto bytes = graphdef_from_text(text);
  if (bytes) return "accepted";
  EXPECT_EQ(bytes.error().kind, ErrorKind::kBadInput);
  return fmt::format("{}:{}: {}", bytes.error().place.line, bytes.error().place.column,
                     bytes.error().message);
}

// An attribute's value, as the text says it, in binary.
std::string value_of(std::string_view text) {
  const std::string bytes =
      bytes_of(fmt::format("node {{ attr {{ key: 'k' value {{ {} }} }} }}", text));
  // node, its length; attr, its length; key, 1, k; value, its length
  constexpr std::size_t kAround = 9;
  EXPECT_GE(bytes.size(), kAround);
  return bytes.size() < kAround ? "" : bytes.substr(kAround);
}

std::string value_refusal(std::string_view text) {
  return refusal(fmt::format("node {{ attr {{ value {{\n{}\n}} }} }}", text));
}

std::string float_bytes(float value) {
  std::string bytes("%....");
  std::memcpy(bytes.data() + 1, &value, 4);
  return bytes;
}

TEST(TextProto, FieldsComeOutInOrderOfNumberWhateverTheOrderOfTheText) {
  EXPECT_EQ(bytes_of("node { op: 'B' name: 'a' }"),
            "\x0a\x06\x0a\x01"
            "a\x12\x01"
            "B");
  EXPECT_EQ(bytes_of("versions { producer: 3 } node {} library {} node {}"),
            std::string("\x0a\x00\x0a\x00\x12\x00\x22\x02\x08\x03", 10));
}

TEST(TextProto, WhatIsADefaultIsNotWritten) {
  EXPECT_EQ(bytes_of("node { name: '' op: '' } version: 0"), std::string("\x0a\x00", 2));
  EXPECT_EQ(value_of("i: 0"), std::string("\x18\x00", 2)) << "a member of a oneof is there";
}

TEST(TextProto, EntriesOfMapsHaveBothFieldsAndStayInOrder) {
  EXPECT_EQ(bytes_of("node { attr {} }"), std::string("\x0a\x06\x2a\x04\x0a\x00\x12\x00", 8));
  EXPECT_EQ(bytes_of("node { attr { value {} key: 'b' } attr { key: 'a' } }"),
            std::string("\x0a\x0e\x2a\x05\x0a\x01"
                        "b\x12\x00\x2a\x05\x0a\x01"
                        "a\x12\x00",
                        16));
}

TEST(TextProto, NumbersArePackedHoweverTheyAreWritten) {
  const std::string packed("\x0a\x05\x1a\x03\x01\x02\x03", 7);
  EXPECT_EQ(value_of("list { i: 1 i: 2 i: 3 }"), packed);
  EXPECT_EQ(value_of("list { i: [1, 2, 3] }"), packed);
  EXPECT_EQ(value_of("list: < i: [1]; i: [], i: [2, 3] >"), packed);
  EXPECT_EQ(value_of("list { i: 1 b: true i: [2, 3] }"),
            std::string("\x0a\x08\x1a\x03\x01\x02\x03\x2a\x01\x01", 10));
}

TEST(TextProto, LongMessagesHaveLongLengths) {
  const std::string name(20'000, 'n');
  const std::string bytes = bytes_of(fmt::format("node {{ name: '{}' }}", name));
  EXPECT_EQ(bytes, "\x0a\xa4\x9c\x01\x0a\xa0\x9c\x01" + name);
}

TEST(TextProto, WholeNumbersAreDecimalHexadecimalOrOctal) {
  EXPECT_EQ(value_of("i: 0x7F"), "\x18\x7f");
  EXPECT_EQ(value_of("i: 0X7f"), "\x18\x7f");
  EXPECT_EQ(value_of("i: 0177"), "\x18\x7f");
  EXPECT_EQ(value_of("i: 127"), "\x18\x7f");
  EXPECT_EQ(value_of("i: - 1"), "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
}

TEST(TextProto, NumbersOutOfRangeAreRefused) {
  EXPECT_THAT(value_refusal("i: 9223372036854775808"),
              HasSubstr("2:4: 9223372036854775808 is out"));
  EXPECT_THAT(value_refusal("i: -9223372036854775809"), HasSubstr("2:4: -9223372036854775809 is"));
  EXPECT_THAT(value_refusal("i: 99999999999999999999"), HasSubstr("out of the range of int64"));
  EXPECT_THAT(value_refusal("tensor { version_number: 2147483648 }"), HasSubstr("of int32"));
  EXPECT_THAT(value_refusal("tensor { uint32_val: 4294967296 }"), HasSubstr("of uint32"));
  EXPECT_THAT(value_refusal("tensor { uint64_val: -1 }"), HasSubstr("of uint64"));
  EXPECT_THAT(value_refusal("type: 2147483648"), HasSubstr("of tensorflow.DataType"));
  EXPECT_THAT(value_refusal("b: 2"), HasSubstr("of bool"));
}

TEST(TextProto, WhatIsNoNumberIsRefused) {
  for (const char* text : {"1.0", "1a", "0x", "08", "1_0", "0o7", "1e3"}) {
    EXPECT_THAT(value_refusal(fmt::format("i: {}", text)), HasSubstr("is no whole number")) << text;
  }
  for (const char* text : {"+1", "'1'", "", "-"}) {
    EXPECT_THAT(value_refusal(fmt::format("i: {}", text)), HasSubstr("where a whole number"));
  }
  for (const char* text : {"1e", "1.0.0", "0x10", "08", "1ef", "infi", "nano", "1ff"}) {
    EXPECT_THAT(value_refusal(fmt::format("f: {}", text)), HasSubstr("is no number")) << text;
  }
}

TEST(TextProto, FloatsAreRoundedAsProtobufDoes) {
  EXPECT_EQ(value_of("f: 0.1"), float_bytes(0.1F));
  EXPECT_EQ(value_of("f: -0"), float_bytes(-0.0F));
  EXPECT_EQ(value_of("f: - .5F"), float_bytes(-0.5F));
  EXPECT_EQ(value_of("f: 1e3f"), float_bytes(1000));
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(value_of("f: -INF"), float_bytes(-kInfinity));
  EXPECT_EQ(value_of("f: Infinity"), float_bytes(kInfinity));
  EXPECT_EQ(value_of("f: 3.40282356e38"), float_bytes(std::numeric_limits<float>::max()));
  EXPECT_EQ(value_of("f: 3.4028236e38"), float_bytes(kInfinity));
  EXPECT_EQ(value_of("f: -1e999"), float_bytes(-kInfinity));
  EXPECT_EQ(value_of("f: 1e-999"), float_bytes(0));
  EXPECT_EQ(value_of("f: 0e999"), float_bytes(0));
  EXPECT_EQ(value_of("f: 0.001e999999999999999999999"), float_bytes(kInfinity));
  EXPECT_EQ(value_of(fmt::format("f: 1{}", std::string(400, '0'))), float_bytes(kInfinity));
  EXPECT_EQ(value_of(fmt::format("f: .{}1e400", std::string(399, '0'))), float_bytes(1));
  EXPECT_EQ(value_of(fmt::format("f: .{}1", std::string(400, '0'))), float_bytes(0));
}

TEST(TextProto, StringsComeInPiecesAndWithEscapes) {
  EXPECT_EQ(value_of(R"(s: 'a"' "b'" # and
                     'c')"),
            "\x12\x05"
            "a\"b'c");
  EXPECT_EQ(value_of(R"(s: "\a\b\f\n\r\t\v\\\'\"\?")"), "\x12\x0b\a\b\f\n\r\t\v\\'\"?");
  EXPECT_EQ(value_of(R"(s: "\1\18\377\xf\x4142")"),
            "\x12\x08\x01\x01"
            "8\xff\x0f"
            "A42");
  EXPECT_EQ(value_of(R"(s: "\u00e9\u20ac\U0001F600\ud83d\ude00")"),
            "\x12\x0d\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xf0\x9f\x98\x80");
}

TEST(TextProto, StringsThatAreWrongAreRefused) {
  EXPECT_THAT(value_refusal("s: 'abc"), HasSubstr("2:4: the string that begins here has no end"));
  EXPECT_THAT(value_refusal("s: 'a\\\nb'"), HasSubstr("an escape in a string that means nothing"));
  for (const char* text : {R"('\q')", R"('\x')", R"('\u12')", R"('\ud83d')", R"('\ud83d\u0041')",
                           R"('\U00110000')", R"('\8')"}) {
    EXPECT_THAT(value_refusal(fmt::format("s: {}", text)), HasSubstr("2:5: an escape")) << text;
  }
  EXPECT_THAT(value_refusal(R"(s: "\400")"), HasSubstr("octal"));
  EXPECT_THAT(value_refusal(R"(placeholder: "\377")"), HasSubstr("2:14: 'placeholder' holds text"));
  EXPECT_THAT(value_refusal("s: 5"), HasSubstr("'5' where a quoted string should stand"));
}

TEST(TextProto, UnknownFieldsAreRefusedWithTheNearestKnownOne) {
  EXPECT_EQ(refusal("node {\n  name: 'é' inptu: 'b'\n}"),
            "2:13: no field 'inptu' in tensorflow.NodeDef; did you mean 'input'?");
  EXPECT_EQ(refusal("nodes {}"),
            "1:1: no field 'nodes' in GraphDef, MetaGraphDef and SavedModel; did you mean 'node'?");
  EXPECT_EQ(value_refusal("type: DT_FLAOT"),
            "2:7: tensorflow.DataType has no 'DT_FLAOT'; did you mean 'DT_FLOAT'?");
  EXPECT_THAT(refusal("node {} meta_info_def {}"),
              HasSubstr("no field 'meta_info_def' in tensorflow.GraphDef"));
}

TEST(TextProto, WhatMayStandOnceMayNotStandTwice) {
  EXPECT_EQ(refusal("node { name: 'a' name: 'a' }"),
            "1:18: tensorflow.NodeDef has a second 'name'");
  EXPECT_EQ(refusal("library {} library {}"), "1:12: tensorflow.GraphDef has a second 'library'");
  EXPECT_EQ(value_refusal("i: 0 b: true"),
            "2:6: tensorflow.AttrValue has 'b' beside 'i', and can have one of them");
  EXPECT_EQ(value_refusal("i: [0]"), "2:4: a list, and tensorflow.AttrValue has one 'i'");
}

TEST(TextProto, ExtensionsAndTheContentOfAnyAreRefused) {
  EXPECT_THAT(refusal("meta_info_def { any_info { [type.googleapis.com/x.Y] { } } }"),
              HasSubstr("1:28: '[' begins an extension or the content of an Any"));
  EXPECT_EQ(bytes_of("meta_info_def { any_info { type_url: 'u' value: 'v' } }"),
            "\x0a\x08\x1a\x06\x0a\x01u\x12\x01v");
}

TEST(TextProto, SyntaxThatIsWrongIsRefusedAtItsPlace) {
  EXPECT_EQ(refusal(""),
            "1:1: the end of the text where the first field of a GraphDef, a "
            "MetaGraphDef or a SavedModel should stand");
  EXPECT_EQ(refusal("node {"), "1:7: the text ends inside a tensorflow.NodeDef, before its '}'");
  EXPECT_THAT(refusal("node { >"), HasSubstr("1:8: '>' where a field of tensorflow.NodeDef"));
  EXPECT_THAT(refusal("node {} }"), HasSubstr("1:9: '}' where a field of tensorflow.GraphDef"));
  EXPECT_THAT(refusal("node: 5"), HasSubstr("1:7: '5' where '{' should stand, after 'node'"));
  EXPECT_THAT(refusal("node { name 'a' }"), HasSubstr("1:13: ''a'' where ':' should stand"));
  EXPECT_THAT(refusal("node [{},]"), HasSubstr("1:10: ']' where '{' should stand"));
  EXPECT_THAT(refusal("node [{} {}]"), HasSubstr("1:10: '{}]' where ',' or ']' should stand"));
  EXPECT_THAT(refusal("version: 1;;"), HasSubstr("1:12: ';' where a field"));
  EXPECT_THAT(refusal("node {} \xff"), HasSubstr("1:9: a byte that is no text where a field"));
  EXPECT_THAT(refusal("node { 1: 'a' }"), HasSubstr("'1:' where a field"));
}

TEST(TextProto, DepthIsLimited) {
  const auto nested = [](int depth) {
    std::string text = "node { experimental_type {";
    for (int i = 2; i < depth - 1; ++i) text += "args{";
    return text + std::string(static_cast<std::size_t>(depth - 1), '}');
  };
  EXPECT_EQ(refusal(nested(kDeepestProto)), "accepted");
  EXPECT_THAT(refusal(nested(kDeepestProto + 1)), HasSubstr("more than 100 messages"));
  EXPECT_THAT(refusal(nested(1'000'000)), HasSubstr("more than 100 messages"));
}

TEST(TextProto, TheKindShowsInTheFirstField) {
  EXPECT_EQ(kind_of_text("# a graph\nlibrary {}"), TensorFlowKind::kGraphDef);
  EXPECT_EQ(kind_of_text("graph_def {}"), TensorFlowKind::kMetaGraphDef);
  EXPECT_EQ(kind_of_text("meta_graphs {}"), TensorFlowKind::kSavedModel);
  for (const TensorFlowKind kind : kTensorFlowKinds) {
    for (const ProtoField& field : root_message(kind).fields) {
      EXPECT_EQ(kind_of_text(fmt::format("{}: x", field.name)), kind) << "names must be unique";
    }
  }
}

}  // namespace
}  // namespace ebb

#include "ebb/export/textproto.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/export/textproto_values.h"
#include "ebb/import/textproto.h"

namespace ebb {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string text_of(std::string_view bytes) {
  const auto text = graphdef_to_text(bytes, TensorFlowKind::kGraphDef);
  EXPECT_TRUE(text) << text.error().message;
  return text.value_or("refused");
}

std::string refusal(std::string_view bytes) {
  const auto text = graphdef_to_text(bytes, TensorFlowKind::kGraphDef);
  if (text) return "accepted";
  EXPECT_EQ(text.error().kind, ErrorKind::kBadInput);
  return text.error().message;
}

std::string printed(double value) {
  std::string out;
  append_double(out, value);
  return out;
}

std::string printed(float value) {
  std::string out;
  append_float(out, value);
  return out;
}

TEST(TextProtoWriter, MessagesAreNestedAndMapsSorted) {
  const auto bytes = graphdef_from_text(
      "node { attr { key: 'b' value { i: -1 } } name: 'n' attr { key: 'a' value { type: 1 } } }");
  ASSERT_TRUE(bytes);
  EXPECT_EQ(text_of(*bytes),
            "node {\n"
            "  name: \"n\"\n"
            "  attr {\n"
            "    key: \"a\"\n"
            "    value {\n"
            "      type: DT_FLOAT\n"
            "    }\n"
            "  }\n"
            "  attr {\n"
            "    key: \"b\"\n"
            "    value {\n"
            "      i: -1\n"
            "    }\n"
            "  }\n"
            "}\n");
}

TEST(TextProtoWriter, AnEmptyMessageIsAnEmptyText) { EXPECT_EQ(text_of(""), ""); }

TEST(TextProtoWriter, OfValuesThatMayStandOnceTheLastCounts) {
  EXPECT_EQ(text_of("\x18\x01\x18\x02"), "version: 2\n");
  EXPECT_EQ(text_of(std::string_view("\x18\x01\x18\x00", 4)), "") << "the last is the default";
  // versions {producer: 1}, then versions {min_consumer: 2}
  EXPECT_EQ(text_of("\x22\x02\x08\x01\x22\x02\x10\x02"),
            "versions {\n  producer: 1\n  min_consumer: 2\n}\n");
}

TEST(TextProtoWriter, AMemberOfAOneofDrivesOutTheOthers) {
  // attr {value {i: 1, b: true, i: 2}}: what was said before b is gone, i is what remains
  EXPECT_EQ(text_of("\x0a\x0a\x2a\x08\x12\x06\x18\x01\x28\x01\x18\x02"),
            "node {\n  attr {\n    value {\n      i: 2\n    }\n  }\n}\n");
  // A list that was driven out does not come back with the next one: {list {i: 1}, b, list {i: 2}}
  EXPECT_EQ(text_of("\x0a\x10\x2a\x0e\x12\x0c\x0a\x03\x1a\x01\x01\x28\x01\x0a\x03\x1a\x01\x02"),
            "node {\n  attr {\n    value {\n      list {\n        i: 2\n      }\n    }\n  }\n}\n");
}

TEST(TextProtoWriter, NumbersAreReadPackedAndUnpacked) {
  // attr {value {list {i: [1, 2], i: 3}}}
  EXPECT_EQ(
      text_of("\x0a\x0c\x2a\x0a\x12\x08\x0a\x06\x1a\x02\x01\x02\x18\x03"),
      "node {\n  attr {\n    value {\n      list {\n        i: 1\n        i: 2\n        i: 3\n"
      "      }\n    }\n  }\n}\n");
}

TEST(TextProtoWriter, DamageIsRefusedWithItsPlace) {
  EXPECT_THAT(refusal("\x0a\x05\x0a\x01x"), StartsWith("the bytes are cut off or no protobuf"));
  EXPECT_THAT(refusal("\x0a\x03\x0a\x01x\x0a\x02\x0a\x05"), StartsWith("node[1]: the bytes are"));
  EXPECT_THAT(refusal("\x0a\x03\x0a\x01\xff"), StartsWith("node[0].name: this should be a text"));
  EXPECT_THAT(refusal("\x0b"), HasSubstr("no protobuf"));
  EXPECT_EQ(graphdef_to_text("\x0b", TensorFlowKind::kGraphDef).error().code, "G01");
  // attr {value {list {f: [three bytes]}}}
  EXPECT_THAT(refusal("\x0a\x0b\x2a\x09\x12\x07\x0a\x05\x22\x03"
                      "123"),
              StartsWith("node[0].attr[0].value.list.f[0]: the bytes are cut off"));
}

TEST(TextProtoWriter, FieldsWithoutANameAreNotDroppedInSilence) {
  EXPECT_THAT(refusal("\x0a\x02\x48\x01"),
              StartsWith("node[0]: field 9 has no name in the tensorflow.NodeDef of TensorFlow "));
  EXPECT_THAT(refusal("\x0a\x02\x08\x01"), StartsWith("node[0]: field 1 has no name"))
      << "a name that is a number";
}

TEST(TextProtoWriter, DepthIsLimited) {
  std::string bytes;
  const auto wrap = [&](char tag) {
    const std::size_t size = bytes.size();
    std::string length(1, static_cast<char>(size & 0x7fU));
    if (size > 0x7f) {
      length[0] = static_cast<char>(size | 0x80U);
      length += static_cast<char>(size >> 7U);
    }
    bytes = tag + length + bytes;
  };
  for (int i = 0; i < kDeepestProto - 3; ++i) wrap('\x12');  // FullTypeDef.args
  const std::string types = bytes;
  wrap('\x3a');  // NodeDef.experimental_type
  wrap('\x0a');  // GraphDef.node
  EXPECT_EQ(refusal(bytes), "accepted");
  bytes = types;
  wrap('\x12');
  wrap('\x3a');
  wrap('\x0a');
  EXPECT_THAT(refusal(bytes), HasSubstr("more than 100 messages in each other"));
}

TEST(TextProtoWriter, DoublesAreLaidOutAsPythonDoes) {
  EXPECT_EQ(printed(0.0), "0.0");
  EXPECT_EQ(printed(-0.0), "-0.0");
  EXPECT_EQ(printed(1.0), "1.0");
  EXPECT_EQ(printed(0.1), "0.1");
  EXPECT_EQ(printed(-123.456), "-123.456");
  EXPECT_EQ(printed(0.0001), "0.0001");
  EXPECT_EQ(printed(0.00001), "1e-05");
  EXPECT_EQ(printed(1e15), "1000000000000000.0");
  EXPECT_EQ(printed(9007199254740993.0), "9007199254740992.0");
  EXPECT_EQ(printed(1e16), "1e+16");
  EXPECT_EQ(printed(1.5e100), "1.5e+100");
  EXPECT_EQ(printed(5e-324), "5e-324");
  EXPECT_EQ(printed(std::numeric_limits<double>::max()), "1.7976931348623157e+308");
  EXPECT_EQ(printed(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(printed(std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(TextProtoWriter, FloatsHaveTheFewestDigitsFromSixOn) {
  EXPECT_EQ(printed(0.1F), "0.1");
  EXPECT_EQ(printed(1.0F / 3), "0.33333334");
  EXPECT_EQ(printed(16777216.0F), "16777216.0");
  EXPECT_EQ(printed(std::numeric_limits<float>::max()), "3.4028235e+38");
  EXPECT_EQ(printed(std::numeric_limits<float>::denorm_min()), "1.4013e-45");
  EXPECT_EQ(printed(std::numeric_limits<float>::infinity()), "inf");
}

TEST(TextProtoWriter, StringsAreEscaped) {
  std::string out;
  append_quoted(out, std::string_view("\n\r\t\"'\\\0\x1f\x7f\xc3\xa9", 11), true);
  EXPECT_EQ(out, "\"\\n\\r\\t\\\"\\'\\\\\\000\\037\\177\xc3\xa9\"");
  out.clear();
  append_quoted(out, "\xc3\xa9", false);
  EXPECT_EQ(out, "\"\\303\\251\"");
}

}  // namespace
}  // namespace ebb

#include "ebb/import/safetensors.h"

#include <array>
#include <cstring>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebb {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string file_of(std::string_view header, std::string_view data = "") {
  std::string file(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(file.data(), &length, 8);
  return file.append(header).append(data);
}

// What the reader says to a header, followed by so many bytes.
std::string refusal(std::string_view header, std::size_t data_size = 8) {
  const std::string file = file_of(header, std::string(data_size, 'x'));
  const auto content = read_safetensors(bytes_of(file));
  if (content) return "accepted";
  EXPECT_EQ(content.error().kind, ErrorKind::kBadInput);
  return content.error().message;
}

constexpr std::string_view kTwo = R"({"__metadata__":{"format":"ebb-step-1"},)"
                                  R"("b":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                                  R"("a":{"dtype":"U8","shape":[],"data_offsets":[8,9]}}   )";

TEST(Safetensors, NamesTypesShapesBytesAndMetadataAreRead) {
  const std::string file = file_of(kTwo, "12345678!");
  const auto content = read_safetensors(bytes_of(file));
  ASSERT_TRUE(content) << content.error().message;
  ASSERT_EQ(content->tensors.size(), 2U);
  const Safetensor* b = content->find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(to_text(*b), "f32[1,2]");
  EXPECT_EQ(text_of(b->bytes), "12345678");
  const Safetensor* a = content->find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(to_text(*a), "u8[]");
  EXPECT_EQ(text_of(a->bytes), "!");
  EXPECT_EQ(content->find("c"), nullptr);
  EXPECT_THAT(content->metadata, ElementsAre(Pair("format", "ebb-step-1")));
}

TEST(Safetensors, NothingButAHeaderIsAFile) {
  const auto content = read_safetensors(bytes_of(file_of("{}")));
  ASSERT_TRUE(content);
  EXPECT_TRUE(content->tensors.empty());
}

TEST(Safetensors, TensorsWithoutElementsMayStandAnywhere) {
  const std::string file = file_of(R"({"e":{"dtype":"F32","shape":[3,0],"data_offsets":[0,0]},)"
                                   R"("f":{"dtype":"F32","shape":[0],"data_offsets":[4,4]},)"
                                   R"("x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                                   "1234");
  const auto content = read_safetensors(bytes_of(file));
  ASSERT_TRUE(content) << content.error().message;
  EXPECT_TRUE(content->find("f")->bytes.empty());
}

TEST(Safetensors, AFileTooShortForItsHeaderIsRefused) {
  EXPECT_THAT(read_safetensors(bytes_of("1234567")).error().message,
              HasSubstr("the file has 7 bytes, and a safetensors file begins with 8"));
  EXPECT_THAT(read_safetensors({}).error().message, HasSubstr("the file has 0 bytes"));
  const std::string file = file_of(kTwo);
  EXPECT_THAT(read_safetensors(bytes_of(file).first(20)).error().message,
              HasSubstr("and 12 follow: the file is cut off, or no safetensors file"));
  EXPECT_THAT(read_safetensors(bytes_of("\xff\xff\xff\xff\xff\xff\xff\xff")).error().message,
              HasSubstr("the header is said to be 18446744073709551615 bytes long, and 0 follow"));
}

TEST(Safetensors, ATruncatedFileIsRefusedAtEveryLength) {
  const std::string file = file_of(kTwo, "12345678!");
  for (std::size_t i = 0; i < file.size(); ++i) {
    EXPECT_FALSE(read_safetensors(bytes_of(file).first(i))) << i;
  }
}

TEST(Safetensors, AHeaderThatIsNoJsonIsRefused) {
  EXPECT_EQ(refusal(""), "the header does not begin with '{': this is no safetensors file");
  EXPECT_EQ(refusal("[]"), "the header does not begin with '{': this is no safetensors file");
  EXPECT_EQ(refusal(" {}"), "the header does not begin with '{': this is no safetensors file");
  EXPECT_EQ(refusal("{\"a\""), "the header is not JSON, at byte 5 of it");
  EXPECT_EQ(refusal("{}x"), "the header is not JSON, at byte 3 of it");
  EXPECT_EQ(refusal("{\"\xff\":1}"), "the header is not JSON, at byte 3 of it");
  EXPECT_EQ(refusal("{\"a\":" + std::string(100'000, '[')),
            "'a' is a list, not an object with dtype, shape and data_offsets");
}

TEST(Safetensors, ValuesOfTheWrongTypeAreRefusedWithTheTensorNamed) {
  const auto tensor = [](std::string_view fields) {
    return refusal(fmt::format("{{\"w\":{}}}", fields));
  };
  EXPECT_EQ(tensor("1"), "'w' is 1, not an object with dtype, shape and data_offsets");
  EXPECT_EQ(tensor("null"), "'w' is null, not an object with dtype, shape and data_offsets");
  EXPECT_EQ(tensor(R"({"dtype":7})"), "tensor 'w' has 7 for its dtype");
  EXPECT_EQ(tensor(R"({"dtype":["F32"]})"), "tensor 'w' has a list for its dtype");
  EXPECT_EQ(tensor(R"({"dtype":{}})"), "tensor 'w' has an object for its dtype");
  EXPECT_EQ(tensor(R"({"shape":2})"), "tensor 'w' has 2 for its shape");
  EXPECT_EQ(tensor(R"({"shape":"2"})"), "tensor 'w' has '2' for its shape");
  EXPECT_EQ(tensor(R"({"shape":[2.5]})"), "tensor 'w' has '2.5' in its shape");
  EXPECT_EQ(tensor(R"({"shape":[-2]})"), "tensor 'w' has -2 in its shape");
  EXPECT_EQ(tensor(R"({"shape":[[2]]})"), "tensor 'w' has a list in its shape");
  EXPECT_EQ(tensor(R"({"shape":[1e3]})"), "tensor 'w' has '1e3' in its shape");
  EXPECT_EQ(tensor(R"({"shape":[true]})"), "tensor 'w' has true in its shape");
  EXPECT_EQ(tensor(R"({"data_offsets":[0,null]})"),
            "tensor 'w' has null in its data_offsets, not two whole numbers");
  EXPECT_EQ(tensor(R"({"data_offsets":[0,4,8]})"),
            "tensor 'w' has 8 in its data_offsets, not two whole numbers");
  EXPECT_EQ(tensor(R"({"data_offsets":[0]})"), "tensor 'w' has 1 of two data_offsets");
  EXPECT_EQ(tensor(R"({"data_offsets":[-1,8]})"),
            "tensor 'w' has -1 in its data_offsets, not two whole numbers");
  EXPECT_EQ(refusal(R"({"__metadata__":[]})"),
            "'__metadata__' is a list, not an object with dtype, shape and data_offsets");
  EXPECT_EQ(refusal(R"({"__metadata__":{"k":1}})"), "the metadata have 1 for 'k', not a text");
}

TEST(Safetensors, MissingAndUnknownFieldsAreRefused) {
  EXPECT_EQ(refusal(R"({"w":{}})"), "tensor 'w' has no dtype");
  EXPECT_EQ(refusal(R"({"w":{"dtype":"F32","data_offsets":[0,8]}})"), "tensor 'w' has no shape");
  EXPECT_EQ(refusal(R"({"w":{"dtype":"F32","shape":[2]}})"), "tensor 'w' has no data_offsets");
  EXPECT_EQ(refusal(R"({"w":{"strides":[1]}})"),
            "tensor 'w' has the field 'strides', which the format does not have");
}

TEST(Safetensors, AnUnknownElementTypeIsRefused) {
  EXPECT_EQ(refusal(R"({"w":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})"),
            "tensor 'w' has elements of type 'F4', which Ebb does not know");
}

TEST(Safetensors, KeysGivenTwiceAreRefused) {
  EXPECT_EQ(refusal(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                    R"("w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
            "the header has two tensors 'w'");
  EXPECT_EQ(refusal(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                    R"("w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
            "the header has two tensors 'w'");
  EXPECT_EQ(refusal(R"({"w":{"dtype":"F32","dtype":"F32"}})"), "tensor 'w' has two dtype");
  EXPECT_EQ(refusal(R"({"__metadata__":{"k":"1","k":"2"}})"), "the metadata have 'k' twice");
  EXPECT_EQ(refusal(R"({"__metadata__":{},"__metadata__":{}})"), "the header has two __metadata__");
}

TEST(Safetensors, PlacesOutsideTheFileAreRefused) {
  EXPECT_EQ(refusal(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})"),
            "tensor 'w' is said to be at bytes 0 to 12 of 8");
  EXPECT_EQ(refusal(R"({"w":{"dtype":"F32","shape":[0],"data_offsets":[8,4]}})"),
            "tensor 'w' is said to be at bytes 8 to 4 of 8");
}

TEST(Safetensors, SizesThatDoNotFitTheShapeAreRefused) {
  EXPECT_EQ(refusal(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})"),
            "tensor 'w' is f32[1], which is 4 bytes, and the file has 8 for it");
}

TEST(Safetensors, ShapesThatOverflowAreRefused) {
  EXPECT_EQ(refusal(R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],)"
                    R"("data_offsets":[0,0]}})"),
            "tensor 'w' is too large: f32[4294967296,4294967296]");
  EXPECT_EQ(refusal(R"({"w":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,0]}})"),
            "tensor 'w' has a dimension of 9223372036854775808");
  EXPECT_EQ(refusal(R"({"w":{"dtype":"F32","shape":[18446744073709551616],)"
                    R"("data_offsets":[0,0]}})"),
            "tensor 'w' has '18446744073709551616' in its shape");
}

TEST(Safetensors, EveryByteBelongsToOneTensor) {
  EXPECT_EQ(refusal(R"({"v":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                    R"("w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
            "tensors 'v' and 'w' lie in the same bytes");
  EXPECT_EQ(refusal(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
            "the 4 bytes before tensor 'w' belong to no tensor");
  EXPECT_EQ(refusal(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})"),
            "the last 4 bytes belong to no tensor");
}

TEST(Safetensors, LongNamesAreCutInMessages) {
  const std::string message = refusal("{\"" + std::string(5000, 'n') + "\":1}");
  EXPECT_THAT(message, HasSubstr("nnn...' is 1"));
  EXPECT_LT(message.size(), 200U);
}

std::string written(const Safetensors& content) {
  const auto pieces = write_safetensors(content);
  EXPECT_TRUE(pieces) << pieces.error().message;
  std::string file;
  for (const std::string_view piece : pieces->all()) file += piece;
  return file;
}

TEST(Safetensors, WhatIsWrittenIsReadAndAligned) {
  const std::array<double, 2> numbers = {1.5, -0.0};
  const std::array<std::int16_t, 3> shorts = {1, 2, 3};
  const Safetensors content{
      .tensors = {{"a flag", DType::kBool, {}, bytes_of("\1")},
                  {"empty", DType::kF32, {0, 3}, {}},
                  {"numbers", DType::kF64, {2, 1}, std::as_bytes(std::span(numbers))},
                  {"\"größe\"\n", DType::kI16, {3}, std::as_bytes(std::span(shorts))}},
      .metadata = {{"format", "ebb-step-1"}, {"scalar.lr", "0x1p-4"}}};
  const std::string file = written(content);
  const auto again = read_safetensors(bytes_of(file));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->metadata, content.metadata);
  ASSERT_EQ(again->tensors.size(), content.tensors.size());
  for (const Safetensor& tensor : content.tensors) {
    const Safetensor* read = again->find(tensor.name);
    ASSERT_NE(read, nullptr) << tensor.name;
    EXPECT_EQ(to_text(*read), to_text(tensor));
    EXPECT_EQ(text_of(read->bytes), text_of(tensor.bytes));
    const auto offset = read->bytes.data() - bytes_of(file).data();
    EXPECT_EQ(offset % element_size(tensor.dtype), 0) << tensor.name;
  }
  EXPECT_EQ(written(*again), file);
}

TEST(Safetensors, AFileOfNothingIsWrittenAndRead) {
  EXPECT_TRUE(read_safetensors(bytes_of(written({}))));
}

TEST(Safetensors, EveryElementTypeOfTheFormatIsWrittenAndRead) {
  const std::string zeros(8, '\0');
  int count = 0;
  for (int i = 0; i <= static_cast<int>(DType::kVariant); ++i) {
    const auto dtype = static_cast<DType>(i);
    if (safetensors_name(dtype).empty()) continue;
    ++count;
    const auto size = static_cast<std::size_t>(element_size(dtype));
    const std::string file =
        written({.tensors = {{"x", dtype, {1}, bytes_of(zeros).first(size)}}, .metadata = {}});
    const auto again = read_safetensors(bytes_of(file));
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->find("x")->dtype, dtype);
  }
  EXPECT_EQ(count, 16);
}

TEST(Safetensors, WhatTheFormatCannotHoldIsNotWritten) {
  const auto complex = write_safetensors(
      {.tensors = {{"z", DType::kC128, {1}, bytes_of("0123456789abcdef")}}, .metadata = {}});
  ASSERT_FALSE(complex);
  EXPECT_EQ(complex.error().message, "safetensors files cannot hold tensors of c128, as 'z' is");
  const auto name = write_safetensors(
      {.tensors = {{"__metadata__", DType::kU8, {1}, bytes_of("0")}}, .metadata = {}});
  ASSERT_FALSE(name);
  EXPECT_THAT(name.error().message, HasSubstr("a tensor named '__metadata__'"));
}

}  // namespace
}  // namespace ebb

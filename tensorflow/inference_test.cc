#include "inference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <protozero/pbf_writer.hpp>

namespace ebb::grappler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A serialized OpInfo.TensorProperties of float32 with these dimensions.
std::string properties(const std::vector<std::int64_t>& dims, bool unknown_rank = false) {
  std::string shape;
  protozero::pbf_writer shape_writer(shape);
  for (const std::int64_t size : dims) {
    std::string dim;
    protozero::pbf_writer(dim).add_int64(1, size);
    shape_writer.add_message(2, dim);
  }
  if (unknown_rank) shape_writer.add_bool(3, true);
  std::string out;
  protozero::pbf_writer writer(out);
  writer.add_enum(1, 1);
  writer.add_message(2, shape);
  return out;
}

TEST(ShapeInProperties, DimensionsAreReadInOrder) {
  const TensorType type = shape_in_properties(properties({8, 3, 0}));
  EXPECT_TRUE(type.ranked);
  EXPECT_THAT(type.dims, ElementsAre(8, 3, 0));
}

TEST(ShapeInProperties, SizesBelowZeroAreUnknown) {
  EXPECT_THAT(shape_in_properties(properties({-1, 4, -7})).dims,
              ElementsAre(TensorType::kUnknownDim, 4, TensorType::kUnknownDim));
}

TEST(ShapeInProperties, AnUnknownRankHasNoDimensions) {
  const TensorType type = shape_in_properties(properties({}, /*unknown_rank=*/true));
  EXPECT_FALSE(type.ranked);
  EXPECT_THAT(type.dims, IsEmpty());
}

TEST(ShapeInProperties, AScalarHasAShape) {
  const TensorType type = shape_in_properties(properties({}));
  EXPECT_TRUE(type.ranked);
  EXPECT_THAT(type.dims, IsEmpty());
}

// TensorFlow writes the dimensions one by one, and for a scalar none of them.
TEST(ShapeInProperties, NothingSaidIsAScalar) {
  const TensorType type = shape_in_properties("");
  EXPECT_TRUE(type.ranked);
  EXPECT_THAT(type.dims, IsEmpty());
}

}  // namespace
}  // namespace ebb::grappler

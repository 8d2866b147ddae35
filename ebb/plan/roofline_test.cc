#include "ebb/plan/roofline.h"

#include <cmath>
#include <filesystem>
#include <random>

#include <gtest/gtest.h>

#include "ebb/base/file.h"
#include "ebb/graph/parse.h"
#include "ebb/plan/costs.h"

namespace ebb {
namespace {

// 2 bytes/ns of memory of which half is reached; rates that tell the kinds apart, in flops/ns.
Device device() {
  return Device{.name = "d",
                .note = {},
                .memory = {1 << 30},
                .memory_bandwidth = {2e9},
                .flops = {.f32 = 1e9,
                          .f32_matmul = 10e9,
                          .f32_convolution = 100e9,
                          .f64 = 0.5e9,
                          .f16 = 20e9,
                          .bf16 = 40e9,
                          .int8 = 80e9},
                .efficiency = {.matmul = 0.5, .convolution = 0.25, .attention = 0.1, .memory = 0.5},
                .launch = Duration{7},
                .link = {}};
}

Duration time(Work work) { return time_of(work, device()); }

TEST(Roofline, IsTheLargerOfComputingAndMoving) {
  // 1000 flops at 10 * 0.5 per ns, and the launch; 400 bytes at 2 * 0.5 per ns.
  EXPECT_EQ(time({.flops = 1000, .bytes = 100, .kind = WorkKind::kMatmul}), Duration{7 + 200});
  EXPECT_EQ(time({.flops = 1000, .bytes = 400, .kind = WorkKind::kMatmul}), Duration{7 + 400});
  EXPECT_EQ(time({.flops = 1000, .kind = WorkKind::kConvolution}), Duration{7 + 40});
  EXPECT_EQ(time({.flops = 1000, .kind = WorkKind::kAttention}), Duration{7 + 1000});
  EXPECT_EQ(time({.flops = 1000, .kind = WorkKind::kMemory}), Duration{7 + 1000});
  EXPECT_EQ(time({.kind = WorkKind::kMemory}), Duration{7});
  EXPECT_EQ(time({}), Duration{0});
}

TEST(Roofline, TakesTheRateOfTheNumbersMultiplied) {
  const auto matmul = [](DType dtype) {
    return time({.flops = 8000, .kind = WorkKind::kMatmul, .dtype = dtype}).count() - 7;
  };
  EXPECT_EQ(matmul(DType::kF64), 32000);
  EXPECT_EQ(matmul(DType::kF32), 1600);
  EXPECT_EQ(matmul(DType::kF16), 800);
  EXPECT_EQ(matmul(DType::kBF16), 400);
  EXPECT_EQ(matmul(DType::kI8), 200);
  EXPECT_EQ(matmul(DType::kF8E4M3), 200);
  EXPECT_EQ(matmul(DType::kI64), 16000);
  EXPECT_EQ(time({.flops = 10, .kind = WorkKind::kMemory, .dtype = DType::kF64}), Duration{7 + 20});
}

TEST(Roofline, AddsRepackingWhereConvolutionsWantChannelsLast) {
  const Work work{.flops = 0, .bytes = 100, .repacked_bytes = 60, .kind = WorkKind::kConvolution};
  Device last = device();
  last.convolution_layout = ConvolutionLayout::kChannelsLast;
  EXPECT_EQ(time_of(work, device()), Duration{7 + 100});
  EXPECT_EQ(time_of(work, last), Duration{7 + 160});
}

TEST(Roofline, IsNeverNegativeAndNeverOverflows) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> exponent(-320, 308);
  const auto any = [&] { return std::pow(10, exponent(random)); };
  for (int i = 0; i < 50'000; ++i) {
    Device odd = device();
    odd.memory_bandwidth = {any()};
    odd.flops.f32 = odd.flops.f32_matmul = any();
    odd.efficiency.memory = any();
    odd.launch = Duration{static_cast<std::int64_t>(random() >> 1)};
    const Duration result = time_of(
        {.flops = any(), .bytes = any(), .repacked_bytes = any(), .kind = WorkKind::kMatmul}, odd);
    ASSERT_GE(result, Duration{0});
    ASSERT_LE(result.count(), std::int64_t{1} << 53);
  }
  const Device nothing{};
  EXPECT_EQ(time_of({.flops = 0, .bytes = 0, .kind = WorkKind::kMemory}, nothing).count(),
            std::int64_t{1} << 53);
}

TEST(Roofline, KnowsAllOperatorsOfTheExamplesAndOfCapturedSteps) {
  std::size_t graphs = 0;
  for (const char* folder : {"/examples", "/tests/torch/captured"}) {
    for (const auto& file :
         std::filesystem::directory_iterator(std::string(EBB_SOURCE_DIR) + folder)) {
      if (file.path().extension() != ".ebb") continue;
      ++graphs;
      const auto graph = parse_valid(read_file(file.path()).value());
      ASSERT_TRUE(graph) << file.path();
      for (const NodeId node : graph->order()) {
        EXPECT_TRUE(work_of(*graph, node).is_known) << file.path() << ": " << graph->op(node);
      }
    }
  }
  EXPECT_GE(graphs, 8);
}

}  // namespace
}  // namespace ebb

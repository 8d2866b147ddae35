// Each family of formulas with the arithmetic beside it. f32 has 4 bytes, bf16 2, i64 8.
#include "ebb/plan/formulas.h"

#include <gtest/gtest.h>

#include "ebb/graph/parse.h"

namespace ebb {
namespace {

// Of the last line.
Work work(const std::string& declarations, const std::string& line) {
  const auto graph = parse_valid("graph g {\n" + declarations + line + "\n  return\n}\n");
  EXPECT_TRUE(graph) << graph.error().render(line);
  if (!graph) return {};
  const Work work = work_of(*graph, graph->order().back());
  EXPECT_TRUE(work.is_known) << line;
  return work;
}

void expect(const Work& work, WorkKind kind, double flops, double bytes) {
  EXPECT_EQ(work.kind, kind);
  EXPECT_DOUBLE_EQ(work.flops, flops);
  EXPECT_DOUBLE_EQ(work.bytes, bytes);
}

constexpr auto kMemory = WorkKind::kMemory;
constexpr auto kMatmul = WorkKind::kMatmul;
constexpr auto kConvolution = WorkKind::kConvolution;
constexpr auto kAttention = WorkKind::kAttention;
constexpr auto kNothing = WorkKind::kNothing;

TEST(Elementwise, ReadsEachOperandAndWritesEachResultOnce) {
  const std::string in = R"(
  input %x: f32[8,16]
  input %b: bf16[8,16]
  input %m: bool[8,16]
  input %row: f32[8,16] strides [0,1]
  input %h: f32[4] @host
  param %w: f32[8,16]
  param %v: f32[4]
)";
  // 128 elements: 512 bytes of f32, 256 of bf16, 128 of bool.
  expect(work(in, "%r: f32[8,16] = aten::add.Tensor(%x, %w)"), kMemory, 128, 3 * 512);
  expect(work(in, "%r: f32[8,16] = aten::_to_copy(%b) {dtype = f32}"), kMemory, 128, 256 + 512);
  expect(work(in, "%r: f32[8,16], %k: bool[8,16] = aten::native_dropout(%x) {p = 0.1} random"),
         kMemory, 256, 512 + 512 + 128);
  // The row is read once: 16 elements.
  expect(work(in, "%r: f32[8,16] = aten::mul.Tensor(%x, %row)"), kMemory, 128, 512 + 64 + 512);
  // What is on the host does not come from the device's memory.
  expect(work(in, "%r: f32[8,16] = tf::AddV2(%x, %h)"), kMemory, 128, 2 * 512);
  // %w is read and written.
  expect(work(in, "%w.1: f32[8,16] ~ %w = aten::add_.Tensor(%w!, %x)"), kMemory, 128, 3 * 512);
  expect(work(in,
              "%w.1: f32[8,16] ~ %w, %v.1: f32[4] ~ %v = aten::_foreach_mul_.Scalar([%w!, %v!]) "
              "{scalar = 2.0}"),
         kMemory, 128 + 4, 2 * 512 + 2 * 16);
  expect(work(in, "%r: f32[16,16] = aten::cat([%x, %w]) {dim = 0}"), kMemory, 256, 2 * 512 + 1024);
  expect(work(in, "%r: f32[8,16] = tf::ReluGrad(%x, %w)"), kMemory, 128, 3 * 512);
  expect(work(in, "%w.1: f32[8,16] ~ %w = aten::copy_(%w!, %b)"), kMemory, 0, 256 + 512);
  EXPECT_EQ(work("  input %d: f64[4]\n", "%r: f64[4] = aten::sin(%d)").dtype, DType::kF64);
}

TEST(Reductions, ReadEverythingAndWriteLittle) {
  const std::string in = "  input %x: f32[8,16]\n";
  expect(work(in, "%r: f32[16] = aten::sum.dim_IntList(%x) {dim = [0]}"), kMemory, 128, 512 + 64);
  expect(work(in, "%r: f32[] = aten::mean(%x)"), kMemory, 128, 512 + 4);
  expect(work(in, "%r: f32[16] = tf::BiasAddGrad(%x)"), kMemory, 128, 512 + 64);
}

TEST(Softmax, KeepsItsRowsOnTheChip) {
  const std::string in = "  input %x: f32[8,16]\n  input %y: f32[8,16]\n";
  expect(work(in, "%r: f32[8,16] = aten::_softmax(%x) {dim = -1}"), kMemory, 128, 2 * 512);
  expect(work(in, "%r: f32[8,16] = aten::_log_softmax_backward_data(%x, %y) {dim = 1}"), kMemory,
         128, 3 * 512);
}

TEST(Fill, WritesOnlyAndAllocationDoesNotEven) {
  const std::string in = "  input %x: f32[8,16]\n";
  expect(work(in, "%r: f32[8,16] = aten::zeros_like(%x)"), kMemory, 128, 512);
  expect(work(in, "%r: f32[8] = aten::arange() {end = 8}"), kMemory, 8, 32);
  expect(work(in, "%r: f32[8,16] = aten::bernoulli.p(%x) {p = 0.5} random"), kMemory, 128, 512);
  expect(work(in, "%r: f32[8,16] = aten::empty_like(%x)"), kNothing, 0, 0);
}

TEST(Views, HaveNothingToDo) {
  const std::string in = "  input %x: f32[8,16]\n";
  expect(work(in, "%r: f32[16,8] strides [1,16] ~ %x = aten::t(%x)"), kNothing, 0, 0);
  expect(work(in, "%r: f32[128] ~ %x = my::flat(%x)"), kNothing, 0, 0);
  expect(work(in, "%r: f32[8,16] = tf::Identity(%x)"), kNothing, 0, 0);
  expect(work(in, "r: tf::NoOp()"), kNothing, 0, 0);
}

TEST(MatrixProducts, AreTwoForEachProductOfElements) {
  const std::string in = R"(
  input %a: f32[8,16]
  input %b: f32[16,32]
  input %at: f32[16,8]
  input %bt: f32[32,16]
  input %c: f32[32]
  input %x: bf16[4,8,16]
  input %y: bf16[4,16,32]
  input %xt: bf16[4,16,8]
  input %z: bf16[4,8,32]
)";
  // 2 * 8 * 16 * 32 = 8192; (128 + 512 + 256) * 4 = 3584 bytes.
  expect(work(in, "%r: f32[8,32] = aten::mm(%a, %b)"), kMatmul, 8192, 3584);
  expect(work(in, "%r: f32[8,32] = aten::mm_nt(%a, %bt)"), kMatmul, 8192, 3584);
  expect(work(in, "%r: f32[8,32] = aten::mm_tn(%at, %b)"), kMatmul, 8192, 3584);
  expect(work(in, "%r: f32[8,32] = aten::addmm(%c, %a, %b)"), kMatmul, 8192, 3584 + 128);
  expect(work(in, "%r: f32[8,32] = tf::MatMul(%a, %b) {transpose_a = false}"), kMatmul, 8192, 3584);
  expect(work(in, "%r: f32[8,32] = tf::MatMul(%at, %b) {transpose_a = true}"), kMatmul, 8192, 3584);
  expect(work(in, "%r: f32[8,32] = tf::_FusedMatMul(%a, %b, [%c])"), kMatmul, 8192, 3584 + 128);
  // 4 of them; (512 + 2048 + 1024) * 2 = 7168 bytes.
  expect(work(in, "%r: bf16[4,8,32] = aten::bmm(%x, %y)"), kMatmul, 4 * 8192, 7168);
  expect(work(in, "%r: bf16[4,8,32] = aten::matmul(%x, %y)"), kMatmul, 4 * 8192, 7168);
  expect(work(in, "%r: bf16[4,8,32] = aten::baddbmm(%z, %x, %y)"), kMatmul, 4 * 8192, 7168 + 2048);
  expect(work(in, "%r: bf16[4,8,32] = tf::BatchMatMulV2(%xt, %y) {adj_x = true}"), kMatmul,
         4 * 8192, 7168);
  EXPECT_EQ(work(in, "%r: bf16[4,8,32] = aten::bmm(%x, %y)").dtype, DType::kBF16);
}

TEST(Convolutions, MeetTheirFilterAtEachElementOfTheOutput) {
  // 1, 2 and 3 dimensions. Each of the 2*8*6 outputs: 4 channels * 3 taps, times 2.
  const std::string in = R"(
  input %x1: f32[2,4,8]
  input %w1: f32[8,4,3]
  input %x2: f32[2,4,8,8]
  input %w2: f32[8,4,3,3]
  input %bias: f32[8]
  input %x3: f32[2,4,8,8,8]
  input %w3: f32[8,4,3,3,3]
  input %grouped: f32[8,2,3,3]
)";
  // 2 * 96 * 12; (64 + 96 + 96) * 4 bytes.
  expect(work(in, "%r: f32[2,8,6] = aten::convolution(%x1, %w1, none) {groups = 1}"), kConvolution,
         2304, 1024);
  // 2 * (2*8*36 = 576) * (4*9 = 36); (512 + 288 + 8 + 576) * 4 bytes.
  expect(work(in, "%r: f32[2,8,6,6] = aten::convolution(%x2, %w2, %bias) {groups = 1}"),
         kConvolution, 41472, 5536);
  // 2 * (2*8*216 = 3456) * (4*27 = 108); (4096 + 864 + 3456) * 4 bytes.
  expect(work(in, "%r: f32[2,8,6,6,6] = aten::convolution(%x3, %w3, none) {groups = 1}"),
         kConvolution, 746496, 33664);
  // Two groups: each output sees 2 channels only.
  expect(work(in, "%r: f32[2,8,6,6] = aten::convolution(%x2, %grouped, none) {groups = 2}"),
         kConvolution, 20736, 5536 - 32 - 576);
}

TEST(Convolutions, TransposedMeetItAtEachElementOfTheInput) {
  const std::string in = "  input %x: f32[2,4,8,8]\n  input %w: f32[4,6,2,2]\n";
  // 2 * (2*4*64 = 512) * (6*4 = 24); (512 + 96 + 2*6*256 = 3072) * 4 bytes.
  expect(work(in,
              "%r: f32[2,6,16,16] = aten::convolution(%x, %w, none) {stride = [2, 2], transposed = "
              "true}"),
         kConvolution, 24576, 14720);
}

TEST(Convolutions, GradientsAreOnePassEach) {
  const std::string in = R"(
  input %dy: f32[2,8,6,6]
  input %x: f32[2,4,8,8]
  input %w: f32[8,4,3,3]
)";
  // A pass: 41472 as forward; dy 576, x or dx 512, w or dw 288 elements: 5504 bytes. The bias reads
  // dy.
  expect(work(in,
              "%dx: f32[2,4,8,8], %dw: f32[8,4,3,3], %db: f32[8] = aten::convolution_backward(%dy, "
              "%x, %w) {output_mask = [true, true, true]}"),
         kConvolution, 2 * 41472, 2 * 5504 + 2304);
  expect(work(in,
              "%dw: f32[8,4,3,3] = aten::convolution_backward(%dy, %x, %w) {output_mask = [false, "
              "true, false]}"),
         kConvolution, 41472, 5504);
  // The two calls of a split do together what the one does; the second has no x.
  expect(work(in,
              "%dw: f32[8,4,3,3], %db: f32[8] = aten::convolution_backward(%dy, %x, %w) "
              "{output_mask = [false, true, true]}"),
         kConvolution, 41472, 5504 + 2304);
  expect(work(in,
              "%dx: f32[2,4,8,8] = aten::convolution_backward(%dy, none, %w) {output_mask = [true, "
              "false, false]}"),
         kConvolution, 41472, 5504);
  const std::string turned =
      "  input %dy: f32[2,6,16,16]\n  input %x: f32[2,4,8,8]\n"
      "  input %w: f32[4,6,2,2]\n";
  expect(work(turned,
              "%dx: f32[2,4,8,8] = aten::convolution_backward(%dy, %x, %w) {transposed = true, "
              "output_mask = [true, false, false]}"),
         kConvolution, 24576, 14720);
}

TEST(Convolutions, OnEachChannelByItselfAreNoWorkForTensorCores) {
  const std::string in = "  input %x: f32[2,4,8,8]\n  input %w: f32[4,1,3,3]\n";
  // 2 * (2*4*36 = 288) * 9; (512 + 36 + 288) * 4 bytes.
  expect(work(in, "%r: f32[2,4,6,6] = aten::convolution(%x, %w, none) {groups = 4}"), kMemory, 5184,
         3344);
  const std::string tf =
      "  input %x: f32[2,8,8,4]\n  input %w: f32[3,3,4,1]\n"
      "  input %dy: f32[2,6,6,4]\n  input %s: i32[4] @host\n";
  expect(work(tf, "%r: f32[2,6,6,4] = tf::DepthwiseConv2dNative(%x, %w)"), kMemory, 5184, 3344);
  expect(work(tf, "%r: f32[2,8,8,4] = tf::DepthwiseConv2dNativeBackpropInput(%s, %w, %dy)"),
         kMemory, 5184, 3344);
  expect(work(tf, "%r: f32[3,3,4,1] = tf::DepthwiseConv2dNativeBackpropFilter(%x, %s, %dy)"),
         kMemory, 5184, 3344);
}

TEST(Convolutions, OfTensorFlowHaveTheirFilterTheOtherWayRound) {
  const std::string in = R"(
  input %x: f32[2,8,8,4]
  input %w: f32[3,3,4,8]
  input %dy: f32[2,6,6,8]
  input %s: i32[4] @host
  input %x3: f32[2,8,8,8,4]
  input %w3: f32[3,3,3,4,8]
  input %dy3: f32[2,6,6,6,8]
)";
  expect(work(in, "%r: f32[2,6,6,8] = tf::Conv2D(%x, %w)"), kConvolution, 41472, 5504);
  expect(work(in, "%r: f32[2,8,8,4] = tf::Conv2DBackpropInput(%s, %w, %dy)"), kConvolution, 41472,
         5504);
  expect(work(in, "%r: f32[3,3,4,8] = tf::Conv2DBackpropFilter(%x, %s, %dy)"), kConvolution, 41472,
         5504);
  expect(work(in, "%r: f32[2,6,6,6,8] = tf::Conv3D(%x3, %w3)"), kConvolution, 746496, 33664);
  expect(work(in, "%r: f32[2,8,8,8,4] = tf::Conv3DBackpropInputV2(%s, %w3, %dy3)"), kConvolution,
         746496, 33664);
  expect(work(in, "%r: f32[3,3,3,4,8] = tf::Conv3DBackpropFilterV2(%x3, %s, %dy3)"), kConvolution,
         746496, 33664);
}

TEST(Convolutions, OnChannelsFirstAreRepacked) {
  const std::string first =
      "  input %x: f32[2,4,8,8]\n  input %w: f32[8,4,3,3]\n"
      "  input %dy: f32[2,8,6,6]\n";
  const std::string last =
      "  input %x: f32[2,4,8,8] strides [256,1,32,4]\n"
      "  input %w: f32[8,4,3,3] strides [36,1,12,4]\n"
      "  input %dy: f32[2,8,6,6] strides [288,1,48,8]\n";
  const std::string forward_first = "%r: f32[2,8,6,6] = aten::convolution(%x, %w, none)";
  const std::string forward_last =
      "%r: f32[2,8,6,6] strides [288,1,48,8] = aten::convolution(%x, %w, none)";
  const std::string gradients =
      "%dx: f32[2,4,8,8] strides [256,1,32,4], %dw: f32[8,4,3,3] = aten::convolution_backward(%dy, "
      "%x, %w) {output_mask = [true, true, false]}";
  // x 512 and y 576 elements, each read and written once more: 2 * 1088 * 4 bytes; for both
  // gradients twice.
  EXPECT_EQ(work(first, forward_first).repacked_bytes, 8704);
  EXPECT_EQ(work(last, forward_last).repacked_bytes, 0);
  EXPECT_EQ(work(first, gradients).repacked_bytes, 2 * 8704);
  EXPECT_EQ(work(last, gradients).repacked_bytes, 0);
  const std::string tf = "  input %x: f32[2,4,8,8]\n  input %w: f32[3,3,4,8]\n";
  EXPECT_EQ(
      work(tf, "%r: f32[2,8,6,6] = tf::Conv2D(%x, %w) {data_format = \"NCHW\"}").repacked_bytes,
      8704);
  // TensorFlow turns what is f32; half precision stays.
  const std::string tf_last =
      "  input %x: f32[2,8,8,4]\n  input %w: f32[3,3,4,8]\n"
      "  input %half: bf16[2,8,8,4]\n  input %half_w: bf16[3,3,4,8]\n";
  EXPECT_EQ(work(tf_last, "%r: f32[2,6,6,8] = tf::Conv2D(%x, %w)").repacked_bytes, 8704);
  EXPECT_EQ(work(tf_last, "%r: bf16[2,6,6,8] = tf::Conv2D(%half, %half_w)").repacked_bytes, 0);
}

TEST(Pooling, TurnsVolumesWithChannelsLastOnTheGpuAndBack) {
  const std::string in = "  input %x: f32[1,4,4,4,2]\n  input %y: f32[1,2,2,2,2]\n";
  // 128 and 16 elements: 576 bytes, and twice that to turn both; the gradient reads and makes two
  // of each.
  expect(work(in, "%r: f32[1,2,2,2,2] = tf::MaxPool3D(%x)"), kMemory, 16, 3 * 576);
  expect(work(in, "%r: f32[1,2,2,2,2] = tf::MaxPool3D(%x) @\"/device:CPU:0\""), kMemory, 16, 576);
  expect(work(in, "%r: f32[1,4,4,4,2] = tf::MaxPool3DGrad(%x, %y, %y)"), kMemory, 128, 3 * 1152);
  const std::string first = "  input %x: f32[1,2,4,4,4]\n";
  expect(work(first, "%r: f32[1,2,2,2,2] = tf::MaxPool3D(%x) {data_format = \"NCDHW\"}"), kMemory,
         16, 576);
}

TEST(Attention, IsTwoProductsForwardAndFiveBackward) {
  const std::string in = R"(
  input %q: bf16[2,4,16,8]
  input %k: bf16[2,4,32,8]
  input %v: bf16[2,4,32,8]
  input %l: f32[2,4,16]
)";
  // 2*4*16*32 = 4096 pairs, 2 * 4096 * (8 + 8); q and out 1024, k and v 2048 elements of bf16, and
  // 128 sums of f32: 12288 + 512 bytes.
  const std::string forward = "%o: bf16[2,4,16,8], %s: f32[2,4,16] = aten::";
  for (const char* op :
       {"_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_cudnn_attention"}) {
    expect(work(in, forward + op + "(%q, %k, %v, none)"), kAttention, 131072, 12800);
  }
  EXPECT_EQ(work(in, forward + "_scaled_dot_product_flash_attention(%q, %k, %v) {is_causal = true}")
                .flops,
            65536);
  // 2 * 4096 * (3*8 + 2*8); do, q, o, dq 1024 each and k, v, dk, dv 2048 each.
  for (const char* op : {"_scaled_dot_product_flash_attention_backward",
                         "_scaled_dot_product_flash_attention_for_cpu_backward"}) {
    expect(work(in, "%dq: bf16[2,4,16,8], %dk: bf16[2,4,32,8], %dv: bf16[2,4,32,8] = aten::" +
                        std::string(op) + "(%q, %q, %k, %v, %q, %l)"),
           kAttention, 327680, 2 * (4 * 1024 + 4 * 2048) + 512);
  }
}

TEST(Recurrence, MeetsAllWeightsAtEveryStep) {
  const std::string in = R"(
  input %x: f32[5,2,8]
  param %wi: f32[16,8]
  param %wh: f32[16,4]
  param %b: f32[16]
  input %h: f32[2,4]
  input %hs: f32[1,2,4]
)";
  // 10 steps of sequences, 128 + 64 weights: 2 * 10 * 192. x 320, weights 512 + 256, biases 64
  // each, states and results 32 or 160 bytes each.
  expect(work(in, "%y: f32[5,2,4] = aten::mkldnn_rnn_layer(%x, %wi, %wh, %b, %b, %h, %h)"), kMatmul,
         3840, 320 + 768 + 2 * 64 + 2 * 32 + 160);
  expect(work(in, "%y: f32[5,2,4] = aten::_cudnn_rnn(%x, [%wi, %wh, %b, %b], none, %hs, %hs)"),
         kMatmul, 3840, 320 + 768 + 2 * 64 + 2 * 32 + 160);
  EXPECT_EQ(
      work(in, "%dx: f32[5,2,8] = aten::_cudnn_rnn_backward(%x, [%wi, %wh, %b, %b], none)").flops,
      2 * 3840);
  EXPECT_EQ(work(in, "%dx: f32[5,2,8] = aten::mkldnn_rnn_layer_backward(%x, %wi, %wh, %b)").flops,
            2 * 3840);
}

TEST(Normalisation, ReadsTwiceWhatItsStatisticsNeed) {
  const std::string in = R"(
  input %x: f32[4,8,16]
  input %dy: f32[4,8,16]
  param %w: f32[8]
  param %b: f32[8]
  param %mean: f32[8]
  param %var: f32[8]
)";
  // x 2048 bytes, each of the small ones 32. Training: x twice, y once, 4 small ones read, 2 saved,
  // 2 updated.
  expect(work(in,
              "%y: f32[4,8,16], %m: f32[8], %r: f32[8], %mean.1: f32[8] ~ %mean, %var.1: f32[8] ~ "
              "%var = aten::native_batch_norm(%x, %w, %b, %mean!, %var!) {training = true}"),
         kMemory, 4096, 3 * 2048 + 8 * 32);
  expect(work(in,
              "%y: f32[4,8,16] = aten::native_batch_norm(%x, %w, %b, %mean, %var) {training = "
              "false}"),
         kMemory, 4096, 2 * 2048 + 4 * 32);
  expect(work(in,
              "%y: f32[4,8,16], %m: f32[8], %r: f32[8] = tf::FusedBatchNormV3(%x, %w, %b, %mean, "
              "%var) {is_training = true}"),
         kMemory, 4096, 3 * 2048 + 6 * 32);
  // dy and x twice, dx once; w, mean, var read, dw and db written.
  const std::string gradients = "%dx: f32[4,8,16], %dw: f32[8], %db: f32[8] = ";
  expect(work(in, gradients + "aten::native_batch_norm_backward(%dy, %x, %w, none, none, %mean, "
                              "%var) {train = true}"),
         kMemory, 6144, 5 * 2048 + 5 * 32);
  expect(work(in, gradients + "aten::cudnn_batch_norm_backward(%x, %dy, %w, none, none, %mean, "
                              "%var)"),
         kMemory, 6144, 5 * 2048 + 5 * 32);
  expect(work(in, gradients + "tf::FusedBatchNormGradV3(%dy, %x, %w, %mean, %var)"), kMemory, 6144,
         5 * 2048 + 5 * 32);
  const std::string rows = R"(
  input %x: f32[32,16]
  input %dy: f32[32,16]
  input %m: f32[32,1]
  param %w: f32[16]
)";
  // A row stays on the chip: x once, y once; w 64, mean and rstd 128 bytes each.
  expect(
      work(rows,
           "%y: f32[32,16], %s: f32[32,1], %r: f32[32,1] = aten::native_layer_norm(%x, %w, none) "
           "{normalized_shape = [16]}"),
      kMemory, 4096, 2 * 2048 + 64 + 256);
  expect(
      work(rows,
           "%dx: f32[32,16], %dw: f32[16] = aten::native_layer_norm_backward(%dy, %x, %m, %m, %w, "
           "none) {normalized_shape = [16]}"),
      kMemory, 6144, 5 * 2048 + 256 + 2 * 64);
  expect(work(in,
              "%y: f32[4,8,16], %m: f32[4,2], %r: f32[4,2] = aten::native_group_norm(%x, %w, %b) "
              "{group = 2}"),
         kMemory, 4096, 3 * 2048 + 4 * 32);
}

TEST(Pooling, ReadsTheGradientAndNotTheImageOnTheWayBack) {
  const std::string in = R"(
  input %x: f32[2,4,8,8]
  input %y: f32[2,4,4,4]
  input %i: i64[2,4,4,4]
  input %s: i32[4] @host
)";
  // x 2048, y 512, indices 1024 bytes.
  expect(work(in, "%r: f32[2,4,4,4], %j: i64[2,4,4,4] = aten::max_pool2d_with_indices(%x)"),
         kMemory, 256, 2048 + 512 + 1024);
  expect(work(in, "%r: f32[2,4,8,8] = aten::max_pool2d_with_indices_backward(%y, %x, %i)"), kMemory,
         512, 512 + 1024 + 2048);
  expect(work(in, "%r: f32[2,4,8,8] = aten::_adaptive_avg_pool2d_backward(%y, %x)"), kMemory, 512,
         512 + 2048);
  // TensorFlow's looks for the largest again.
  expect(work(in, "%r: f32[2,4,8,8] = tf::MaxPoolGrad(%x, %y, %y)"), kMemory, 512,
         2048 + 512 + 512 + 2048);
  expect(work(in, "%r: f32[2,4,8,8] = tf::AvgPoolGrad(%s, %y)"), kMemory, 512, 512 + 2048);
}

TEST(Losses, LookAtOneProbabilityOfEachRow) {
  const std::string in = "  input %p: f32[8,1000]\n  input %t: i64[8]\n  input %g: f32[]\n";
  // 8 targets of 8 bytes, and 32 bytes around each element. Backward writes 32000 bytes besides.
  expect(work(in, "%l: f32[], %s: f32[] = aten::nll_loss_forward(%p, %t, none) {reduction = 1}"),
         kMemory, 8, 64 + 256);
  expect(
      work(in, "%d: f32[8,1000] = aten::nll_loss_backward(%g, %p, %t, none, %g) {reduction = 1}"),
      kMemory, 8, 64 + 256 + 32000);
}

TEST(Indexing, MovesWhatItTakesAndNotWhatItTakesItFrom) {
  const std::string in = R"(
  param %table: f32[1000,16]
  param %handle: resource[]
  input %i: i64[8]
  input %rows: f32[8,16]
)";
  // The table has 64000 bytes; 8 rows have 512, indices 64.
  expect(work(in, "%r: f32[8,16] = aten::embedding(%table, %i)"), kMemory, 0, 64 + 2 * 512);
  expect(work(in, "%r: f32[8,16] = aten::index.Tensor(%table, [%i])"), kMemory, 0, 64 + 2 * 512);
  expect(work(in, "%r: f32[8,16] = tf::GatherV2(%table, %i)"), kMemory, 0, 64 + 2 * 512);
  expect(work(in, "%r: f32[8,16] = tf::ResourceGather(%handle, %i) effect"), kMemory, 0,
         64 + 2 * 512);
  // The result is cleared, and the rows are added to it: read, added to, written.
  expect(
      work(in, "%r: f32[1000,16] = aten::embedding_dense_backward(%rows, %i) {num_weights = 1000}"),
      kMemory, 128, 512 + 64 + 64000 + 2 * 512);
  expect(work(in, "%r: f32[1000,16] = tf::UnsortedSegmentSum(%rows, %i)"), kMemory, 128,
         512 + 64 + 64000 + 2 * 512);
  // In place only the rows; otherwise the whole is copied.
  expect(work(in, "%t.1: f32[1000,16] ~ %table = aten::index_put_(%table!, [%i], %rows)"), kMemory,
         0, 2 * (64 + 512));
  expect(work(in, "%r: f32[1000,16] = aten::index_put(%table, [%i], %rows)"), kMemory, 0,
         2 * 64000 + 2 * (64 + 512));
}

TEST(Optimizers, ReadAndWriteEachState) {
  const std::string in = R"(
  param %w: f32[128]
  param %m: f32[128]
  param %v: f32[128]
  param %step: f32[]
  input %g: f32[128]
)";
  // w, m, v read and written, g read: 7 * 512 bytes; the step counts, 8 bytes.
  expect(work(in,
              "%w.1: f32[128] ~ %w, %m.1: f32[128] ~ %m, %v.1: f32[128] ~ %v, %step.1: f32[] ~ "
              "%step = aten::_fused_adamw_([%w!], [%g], [%m!], [%v!], [], [%step!])"),
         kMemory, 3 * 128 + 1, 7 * 512 + 8);
  const std::string tf = R"(
  param %w: resource[]
  param %m: resource[]
  param %v: resource[]
  input %lr: f32[]
  input %g: f32[128]
)";
  // The same states behind handles, each as large as the gradient.
  expect(work(tf, "r: tf::ResourceApplyGradientDescent(%w, %lr, %g) effect"), kMemory, 512,
         3 * 512);
  expect(work(tf, "r: tf::ResourceApplyMomentum(%w, %m, %lr, %g, %lr) effect"), kMemory, 1024,
         5 * 512);
  expect(work(tf, "r: tf::ResourceApplyAdam(%w, %m, %v, %lr, %lr, %lr, %lr, %lr, %lr, %g) effect"),
         kMemory, 1536, 7 * 512);
  expect(work(tf, "r: tf::AssignSubVariableOp(%w, %g) effect"), kMemory, 128, 3 * 512);
  expect(work(tf, "r: tf::AssignVariableOp(%w, %g) effect"), kMemory, 0, 2 * 512);
  expect(work(tf, "%r: f32[128] = tf::ReadVariableOp(%w) effect"), kNothing, 0, 0);
}

TEST(Formulas, TakeOddOperationsAsTheyAre) {
  const std::string in = "  input %x: f32[]\n  input %e: f32[0,4]\n";
  for (const char* op :
       {"mm", "addmm", "bmm", "baddbmm", "convolution", "convolution_backward", "_softmax",
        "_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_backward",
        "native_batch_norm", "native_batch_norm_backward", "max_pool2d_with_indices_backward",
        "nll_loss_forward", "nll_loss_backward", "embedding", "embedding_dense_backward",
        "index_put"}) {
    for (const char* operands : {"", "%x", "none, none, none", "%e, %e, %e", "[%x, %e], []"}) {
      const Work odd = work(in, "%r: f32[0,4] = aten::" + std::string(op) + "(" + operands + ")");
      EXPECT_GE(odd.flops, 0) << op << "(" << operands << ")";
      EXPECT_GE(odd.bytes, 0) << op << "(" << operands << ")";
    }
  }
}

}  // namespace
}  // namespace ebb

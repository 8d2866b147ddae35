#include "ebb/rewrite/lms_arguments.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

LmsOptions all_options() {
  return {.optimizer_scopes = {"adam", "my opt"},
          .starting_scope = "tower",
          .starting_op_names = {"it's"},
          .excl_scopes = {"a"},
          .excl_types = {"aten::relu"},
          .incl_scopes = {"b"},
          .incl_types = {"Conv2D", "MatMul"},
          .n_tensors = 20,
          .lb = 3,
          .ub = 50,
          .ctrld_strategy = "direct_order",
          .fuse_swapins = true,
          .swap_branches = true,
          .branch_threshold = 7,
          .fuse_distance = 5,
          .whole_graph = true,
          .alpha = 9,
          .min_bytes = Bytes{1 << 20},
          .sync = 2,
          .recompute_types = {"Relu"}};
}

TEST(LmsArguments, DefaultsAreLeftOutButNotWhatIsTuned) {
  EXPECT_EQ(command_line_arguments({}), "--n-tensors -1 --lb 1");
  EXPECT_EQ(python_arguments({}), "n_tensors=-1, lb=1");
}

TEST(LmsArguments, OfTheCommandLineAreQuotedForTheShell) {
  EXPECT_EQ(
      command_line_arguments(all_options()),
      "--optimizer-scopes 'adam,my opt' --starting-scope tower --starting-op-names 'it'\\''s' "
      "--excl-scopes a --incl-scopes b --excl-types aten::relu --incl-types Conv2D,MatMul "
      "--n-tensors 20 --lb 3 --ub 50 --ctrld-strategy direct_order --fuse-swapins "
      "--swap-branches --branch-threshold 7 --fuse-distance 5 --whole-graph --alpha 9 "
      "--recompute-types Relu --sync 2 --min-bytes 1MiB");
}

TEST(LmsArguments, OfPythonAreAsLmsNamesThem) {
  EXPECT_EQ(python_arguments(all_options()),
            R"(optimizer_scopes={"adam", "my opt"}, starting_scope="tower", )"
            R"(starting_op_names={"it's"}, excl_scopes={"a"}, incl_scopes={"b"}, )"
            R"(excl_types={"aten::relu"}, incl_types={"Conv2D", "MatMul"}, )"
            R"(n_tensors=20, lb=3, ub=50, ctrld_strategy="direct_order", fuse_swapins=True, )"
            R"(swap_branches=True, branch_threshold=7, fuse_distance=5, whole_graph=True, )"
            R"(alpha=9, recompute_types={"Relu"}, sync=2, min_bytes="1MiB")");
}

TEST(LmsArguments, WhatRefinesAnotherGoesWithIt) {
  EXPECT_EQ(command_line_arguments({.branch_threshold = 7, .fuse_distance = 5, .alpha = 9}),
            "--n-tensors -1 --lb 1");
}

TEST(LmsArguments, PythonHasNoCodecs) {
  const LmsOptions options{.codec = "bits", .codec_on_host = true};
  EXPECT_EQ(command_line_arguments(options), "--n-tensors -1 --lb 1 --codec bits --codec-on-host");
  EXPECT_EQ(python_arguments(options), std::nullopt);
}

}  // namespace
}  // namespace ebb

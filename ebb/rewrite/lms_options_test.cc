// What text cannot say about the driver's options; tests/text/lms_parameters.test has the rest.
#include <gtest/gtest.h>

#include "ebb/graph/parse.h"
#include "ebb/rewrite/lms.h"
#include "ebb/rewrite/lms_names.h"

namespace ebb {
namespace {

TEST(LmsOptions, ScopesAreWholeComponentsInARow) {
  EXPECT_TRUE(in_scope("a/b/c", "a"));
  EXPECT_TRUE(in_scope("a/b/c", "b/c"));
  EXPECT_TRUE(in_scope("ab/b/c", "b"));
  EXPECT_TRUE(in_scope("a/b/c", "/a/b/"));
  EXPECT_FALSE(in_scope("a/b/c", "a/c"));
  EXPECT_FALSE(in_scope("adam2/mul", "adam"));
  EXPECT_FALSE(in_scope("nadam/mul", "adam"));
  EXPECT_FALSE(in_scope("a.b/c", "a?b"));
  EXPECT_FALSE(in_scope("axb/c", "a.b"));
  EXPECT_FALSE(in_scope("/a", ""));
  EXPECT_FALSE(in_scope("a//b", "/"));
}

TEST(LmsOptions, GradientScopesMayHaveANumber) {
  EXPECT_TRUE(in_gradient_scope("a/gradients_12/b"));
  EXPECT_FALSE(in_gradient_scope("a/gradients_/b"));
  EXPECT_FALSE(in_gradient_scope("a/gradientsx12/b"));
  EXPECT_FALSE(in_gradient_scope("a/gradients_1x/b"));
}

TEST(LmsOptions, TypesMayLackOverloadAndNamespace) {
  EXPECT_TRUE(is_of_type("aten::add.Tensor", "aten::add"));
  EXPECT_TRUE(is_of_type("aten::add.Tensor", "add"));
  EXPECT_TRUE(is_of_type("Relu", "Relu"));
  EXPECT_FALSE(is_of_type("Relu", "elu"));
  EXPECT_FALSE(is_of_type("aten::add.Tensor", "Tensor"));
}

TEST(LmsOptions, WrongOnesAreWrongUsage) {
  const Graph graph =
      parse_valid("graph g {\n  input %x: f32[4]\n  %a: f32[4] = my::f(%x)\n  return %a\n}\n")
          .value();
  for (const LmsOptions& wrong :
       {LmsOptions{.lb = 0}, LmsOptions{.min_bytes = Bytes{-1}}, LmsOptions{.codec = "zip"},
        LmsOptions{.optimizer_scopes = {"adam"}}, LmsOptions{.excl_types = {"Conv2D"}},
        LmsOptions{.starting_op_names = {"b"}}, LmsOptions{.ctrld_strategy = "fastest"}}) {
    const auto plan = choose_swaps(graph, wrong);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().kind, ErrorKind::kUsage) << plan.error().message;
  }
}

TEST(LmsOptions, NamesThatAreAbsentAreDroppedWhereSomethingIsLeftToDo) {
  const Graph graph =
      parse_valid("graph g {\n  input %x: f32[4]\n  %a: f32[4] = my::f(%x)\n  return %a\n}\n")
          .value();
  LmsOptions options{.starting_op_names = {"b"},
                     .excl_scopes = {"adam"},
                     .excl_types = {"my::f", "Conv2D"},
                     .incl_types = {"Relu", "f"},
                     .recompute_types = {"Relu"}};
  EXPECT_EQ(drop_absent_names(graph, options).size(), 4U);
  EXPECT_TRUE(options.excl_scopes.empty());
  EXPECT_EQ(options.excl_types, std::vector<std::string>{"my::f"});
  EXPECT_EQ(options.incl_types, std::vector<std::string>{"f"});
  EXPECT_TRUE(options.recompute_types.empty());
  EXPECT_EQ(options.starting_op_names, std::vector<std::string>{"b"});  // where else to start?
}

}  // namespace
}  // namespace ebb

// Calls that are two in the rewritten graph: which two are the one, and which are not.
#include "ebb/rewrite/proof_splits.h"

#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"
#include "ebb/graph/verify.h"
#include "ebb/rewrite/proof.h"
#include "ebb/rewrite/proof_test_text.h"

namespace ebb {
namespace {

using testing::StartsWith;

constexpr std::string_view kStep = R"(graph g {
  input %g: f32[2,8,4,4]
  input %x: f32[2,3,6,6]
  input %z: f32[2,3,6,6]
  param %w: f32[8,3,3,3]
  %r: f32[2,3,6,6] = my::dropout(%x) random
  %gx: f32[2,3,6,6], %gw: f32[8,3,3,3], %gb: f32[8] = aten::convolution_backward(%g, %r, %w) {stride = [1, 1], output_mask = [true, true, true]} takes 5us workspace 1KiB
  %y: f32[2,3,6,6] = my::dropout(%gx) random
  return %y, %gw, %gb
}
)";

constexpr std::string_view kWhole =
    "  %gx: f32[2,3,6,6], %gw: f32[8,3,3,3], %gb: f32[8] = aten::convolution_backward(%g, %r, %w) "
    "{stride = [1, 1], output_mask = [true, true, true]} takes 5us workspace 1KiB\n";
constexpr std::string_view kParts =
    "  %gw: f32[8,3,3,3], %gb: f32[8] = aten::convolution_backward(%g, %r, %w) "
    "{stride = [1, 1], output_mask = [false, true, true]} takes 2.5us workspace 1KiB\n"
    "  %gx: f32[2,3,6,6] = aten::convolution_backward(%g, none, %w) "
    "{stride = [1, 1], output_mask = [true, false, false]} after gw takes 2.5us workspace 1KiB\n";

// The verdict on the step with two calls, of which pieces are replaced.
std::string verdict_on_parts(const Replacements& replacements) {
  return verdict(kStep, {{kWhole, replaced(std::string(kParts), replacements)}});
}

TEST(ProofOfSplits, TheTwoCallsAreTheOne) {
  EXPECT_EQ(verdict_on_parts({}), "7 nodes compute the same; added: 1 split");
}

TEST(ProofOfSplits, MoreControlEdgesAreAdded) {
  EXPECT_EQ(verdict_on_parts({{"after gw takes", "after gw, r takes"}}),
            "7 nodes compute the same; added: 1 split, 1 control edge");
}

TEST(ProofOfSplits, TheOneCallIsNotTheTwo) {
  const auto one = parse_valid(kStep);
  const auto two = parse_valid(replaced(std::string(kStep), {{kWhole, kParts}}));
  ASSERT_TRUE(one && two);
  const auto proof = prove_same(*two, *one);
  ASSERT_FALSE(proof);
  EXPECT_EQ(proof.error().code, "S01");
}

TEST(ProofOfSplits, AGraphOfTwoCallsIsTheSameAsItself) {
  const auto two = parse_valid(replaced(std::string(kStep), {{kWhole, kParts}}));
  ASSERT_TRUE(two);
  const auto proof = prove_same(*two, *two);
  ASSERT_TRUE(proof);
  EXPECT_EQ(to_text(*proof), "8 nodes compute the same; added: nothing");
}

TEST(ProofOfSplits, AMaskThatAsksForAnotherGradientIsAnother) {
  EXPECT_THAT(verdict_on_parts({{"[true, false, false]", "[false, true, false]"}}),
              StartsWith("S03: an attribute of 'gx' changed: "));
  EXPECT_THAT(verdict_on_parts({{"[false, true, true]", "[true, true, true]"}}),
              StartsWith("S03: an attribute of 'gw' changed: "));
  EXPECT_THAT(verdict_on_parts({{"[false, true, true]", "[true, true, false]"}}),
              StartsWith("S03: an attribute of 'gw' changed: "));
}

TEST(ProofOfSplits, OtherAttributesStay) {
  EXPECT_THAT(verdict_on_parts({{"{stride = [1, 1], output_mask = [true", "{output_mask = [true"}}),
              StartsWith("S03: an attribute of 'gx' changed: "));
  EXPECT_THAT(verdict_on_parts(
                  {{"{stride = [1, 1], output_mask = [f", "{stride = [2, 1], output_mask = [f"}}),
              StartsWith("S03: an attribute of 'gw' changed: "));
}

TEST(ProofOfSplits, OperandsStay) {
  EXPECT_THAT(verdict_on_parts({{"(%g, %r, %w)", "(%g, %x, %w)"}}),
              StartsWith("S04: 'gw' reads %x where the original reads %r: "));
  EXPECT_THAT(verdict_on_parts({{"(%g, %r, %w)", "(%g, none, %w)"}}),
              StartsWith("S04: 'gw' does not read %r any more: "));
  EXPECT_THAT(verdict_on_parts({{"(%g, none, %w)", "(%g, %r, %w)"}}),
              StartsWith("S04: 'gx' reads %r, and the original nothing there: "));
  EXPECT_THAT(verdict_on_parts({{"(%g, none, %w)", "(none, none, %w)"}}),
              StartsWith("S04: 'gx' does not read %g any more: "));
}

TEST(ProofOfSplits, ResultsStay) {
  EXPECT_THAT(verdict_on_parts({{"%gw: f32[8,3,3,3], %gb", "%gw: f32[8,3,3,1], %gb"}}),
              StartsWith("S05: the type of a result of 'gw' changed: "));
  EXPECT_THAT(
      verdict(kStep,
              {{kWhole, replaced(std::string(kParts), {{", %gb: f32[8] =", ", %gc: f32[8] ="}})},
               {"return %y, %gw, %gb", "return %y, %gw, %gc"}}),
      StartsWith("S05: the name of a result of 'gw' changed: "));
  EXPECT_THAT(verdict(kStep, {{kWhole, replaced(std::string(kParts), {{", %gb: f32[8] =", " ="}})},
                              {"return %y, %gw, %gb", "return %y, %gw, %gw"}}),
              StartsWith("S05: the number or kind of results of 'gw' changed: "));
}

TEST(ProofOfSplits, TimeIsSharedAndWorkspaceKept) {
  EXPECT_THAT(verdict_on_parts({{"after gw takes 2.5us", "after gw takes 5us"}}),
              StartsWith("S03: the time of 'gx' changed: "));
  EXPECT_THAT(verdict_on_parts({{"takes 2.5us workspace 1KiB\n  %gx", "takes 2.5us\n  %gx"}}),
              StartsWith("S03: the workspace of 'gw' changed: "));
}

TEST(ProofOfSplits, TheSecondCallWaitsForTheFirstAndSoForAllThatTheOneWaitedFor) {
  EXPECT_THAT(verdict_on_parts({{" after gw takes", " takes"}}),
              StartsWith("S10: 'gx' does not wait for 'gw', as it does in the original: "));
}

TEST(ProofOfSplits, AnInputThatLiesOtherwiseThanItsGradientIsNeeded) {
  const std::string step =
      replaced(std::string(kStep),
               {{"%gx: f32[2,3,6,6], %gw", "%gx: f32[2,3,6,6] strides [108,1,18,3], %gw"}});
  const auto before = parse_valid(step);
  ASSERT_TRUE(before) << before.error().render("");
  const auto after = parse_valid(replaced(
      step, {{replaced(std::string(kWhole),
                       {{"%gx: f32[2,3,6,6]", "%gx: f32[2,3,6,6] strides [108,1,18,3]"}}),
              replaced(std::string(kParts),
                       {{"%gx: f32[2,3,6,6]", "%gx: f32[2,3,6,6] strides [108,1,18,3]"}})}}));
  ASSERT_TRUE(after) << after.error().render("");
  const auto proof = prove_same(*before, *after);
  ASSERT_FALSE(proof);
  EXPECT_EQ(proof.error().code, "S02") << proof.error().message;
}

// By masks that would fit, if the first result were the gradient of the input.
TEST(ProofOfSplits, GradientsOfWeightAndBiasAreNotApart) {
  constexpr std::string_view kTogether = R"(graph g {
  input %x: f32[8]
  %gw: f32[8], %gb: f32[8] = aten::convolution_backward(%x, %x, %x) {output_mask = [false, true, true]}
  return %gw, %gb
}
)";
  EXPECT_THAT(
      verdict(kTogether, {{"  %gw: f32[8], %gb: f32[8] = aten::convolution_backward(%x, %x, %x) "
                           "{output_mask = [false, true, true]}\n",
                           "  %gb: f32[8] = aten::convolution_backward(%x, %x, %x) "
                           "{output_mask = [false, true, true]}\n"
                           "  %gw: f32[8] = aten::convolution_backward(%x, none, %x) "
                           "{output_mask = [true, false, false]} after gb\n"}}),
      StartsWith("S02: the original has no 'gb'"));
}

TEST(ProofOfSplits, ACallWithoutAnInputIsOne) {
  const std::string step = replaced(std::string(kStep), {{"(%g, %r, %w)", "(%g, none, %w)"}});
  const auto before = parse_valid(step);
  const auto after = parse_valid(
      replaced(step, {{replaced(std::string(kWhole), {{"(%g, %r, %w)", "(%g, none, %w)"}}),
                       replaced(std::string(kParts), {{"(%g, %r, %w)", "(%g, none, %w)"}})}}));
  ASSERT_TRUE(before && after);
  EXPECT_TRUE(find_split_calls(*before, *after).empty());
  EXPECT_FALSE(prove_same(*before, *after));
}

TEST(ProofOfSplits, ACallThatMayNotRunTwiceIsNotTwo) {
  const auto make_random = [](std::string text) {
    for (std::size_t at = 0; (at = text.find(" takes", at)) != std::string::npos;) {
      text.insert(at, " random");
      at += 14;
    }
    return text;
  };
  const auto before = parse_valid(make_random(std::string(kStep)));
  ASSERT_TRUE(before) << before.error().render("");
  const auto after = parse_valid(make_random(replaced(std::string(kStep), {{kWhole, kParts}})));
  ASSERT_TRUE(after) << after.error().render("");
  const auto proof = prove_same(*before, *after);
  ASSERT_FALSE(proof);
  EXPECT_EQ(proof.error().code, "S02") << proof.error().message;
}

TEST(ProofOfSplits, ACallOfWhichTheOriginalHasACloneIsOne) {
  constexpr std::string_view kAgain =
      "  %gx.again: f32[2,3,6,6], %gw.again: f32[8,3,3,3], %gb.again: f32[8] = "
      "aten::convolution_backward(%g, %r, %w) {stride = [1, 1], output_mask = [true, true, true]} "
      "clone of gx takes 5us workspace 1KiB\n";
  const std::string whole = std::string(kWhole) + std::string(kAgain);
  const auto before = parse_valid(replaced(std::string(kStep), {{kWhole, whole}}));
  ASSERT_TRUE(before) << before.error().render("");
  const auto after = parse_valid(replaced(std::string(kStep), {{kWhole, kParts}}));
  ASSERT_TRUE(after);
  EXPECT_FALSE(prove_same(*before, *after));
  EXPECT_TRUE(find_split_calls(*before, *after).empty());
}

TEST(ProofOfSplits, CallsAreSplitWhereTheRewrittenGraphIs) {
  const auto one = parse_valid(kStep);
  const auto two = parse_valid(replaced(std::string(kStep), {{kWhole, kParts}}));
  ASSERT_TRUE(one && two);
  EXPECT_TRUE(find_split_calls(*one, *one).empty());
  EXPECT_EQ(find_split_calls(*one, *two), std::vector{one->find_node("gx")});
  const Graph split = with_split_calls(*one, find_split_calls(*one, *two));
  EXPECT_TRUE(find_violations(split, 1).empty());
  EXPECT_EQ(print(split), print(*two));
}

TEST(ProofOfSplits, ADifferenceInAPartIsOneOfTheWhole) {
  const auto one = parse_valid(kStep);
  const auto two = parse_valid(
      replaced(std::string(kStep),
               {{kWhole, replaced(std::string(kParts), {{"(%g, %r, %w)", "(%g, %x, %w)"}})}}));
  ASSERT_TRUE(one && two);
  const auto found = compare_computations(*one, *two);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().original, one->find_node("gx"));
  EXPECT_EQ(found.error().rewritten, two->find_node("gw"));
}

}  // namespace
}  // namespace ebb

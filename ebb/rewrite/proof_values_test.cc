// What holds the same: through codecs, and through copies and clones that the original has already.
#include "ebb/rewrite/proof_values.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/rewrite/proof_test_text.h"

namespace ebb {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view kMask = R"(graph mask {
  input %x: f32[64]
  %m: bool[64] = my::gt(%x)
  %b: f32[64] = my::sin(%x)
  %c: f32[64] = my::where(%m, %b)
  return %c
}
)";
constexpr std::string_view kMakeMask = "  %m: bool[64] = my::gt(%x)\n";
constexpr std::string_view kMaskOut =
    "  %m: bool[64] = my::gt(%x)\n"
    "  %m.code: u8[8] = ebb::encode(%m) {codec = \"bits\"}\n"
    "  %m.host: u8[8] @host = ebb::swap_out(%m.code)\n";
constexpr std::string_view kUseMask = "  %c: f32[64] = my::where(%m, %b)\n";
constexpr std::string_view kMaskBack =
    "  %m.back: u8[8] = ebb::swap_in(%m.host) after b\n"
    "  %m.back.2: bool[64] = ebb::decode(%m.back) {codec = \"bits\"}\n"
    "  %c: f32[64] = my::where(%m.back.2, %b)\n";
Replacements swap_of_mask() { return {{kMakeMask, kMaskOut}, {kUseMask, kMaskBack}}; }

TEST(Proof, ALosslessCodecIsTheIdentity) {
  EXPECT_EQ(verdict(kMask, swap_of_mask()),
            "4 nodes compute the same; added: 1 swap-out, 1 swap-in, 1 encoding, 1 decoding, 1 "
            "control edge");
}

std::string with_codec(std::string_view codec) {
  return replaced(std::string(kMaskBack), {{"\"bits\"", codec}});
}

TEST(Proof, WhatOneCodecEncodesAnotherDoesNotDecode) {
  const std::string other = with_codec("\"bf16\"");
  EXPECT_EQ(verdict(kMask, {{kMakeMask, kMaskOut}, {kUseMask, other}}, {.allow_lossy = true}),
            "S06: 'm.back.2' decodes %m.back (holds %m encoded by 'bits'), which is not encoded by "
            "'bf16': '%m.back.2: bool[64] = ebb::decode(%m.back) {codec = \"bf16\"}'");
}

TEST(Proof, ACodecHasOneName) {
  for (const std::string_view none : {"3", "[\"bits\"]", "none"}) {
    const std::string unnamed = with_codec(none);
    EXPECT_THAT(verdict(kMask, {{kMakeMask, kMaskOut}, {kUseMask, unnamed}}),
                StartsWith("S06: 'm.back.2' does not say by which codec, as {codec = \"...\"}: '"));
  }
  EXPECT_THAT(
      verdict(kMask, {{kMakeMask, kMaskOut}, {kUseMask, with_codec("\"bits\", level = 3")}}),
      StartsWith("S06: 'm.back.2' has one attribute, its codec: '"));
}

TEST(Proof, ACodecIsKnown) {
  EXPECT_THAT(verdict(kMask, {{kMakeMask,
                               "  %m: bool[64] = my::gt(%x)\n"
                               "  %z: u8[8] = ebb::encode(%m) {kodec = \"bits\"}\n"}}),
              StartsWith("S06: 'z' does not say by which codec"));
  EXPECT_THAT(verdict(kMask, {{kMakeMask,
                               "  %m: bool[64] = my::gt(%x)\n"
                               "  %z: u8[8] = ebb::encode(%m) {codec = \"zip\"}\n"}}),
              StartsWith("S06: 'z' encodes %m by 'zip', which may not give back every bit, and"));
}

TEST(Proof, WhatIsEncodedIsNotEncodedAgain) {
  EXPECT_THAT(
      verdict(kMask, {{kMakeMask, std::string(kMaskOut) + "  %z: u8[1] = ebb::encode(%m.code) "
                                                          "{codec = \"bits\"}\n"}}),
      StartsWith("S06: 'z' encodes %m.code (holds %m encoded by 'bits'), which is encoded "
                 "already: '"));
}

TEST(Proof, NobodyElseReadsWhatIsEncoded) {
  EXPECT_THAT(verdict(kMask, {{kMakeMask, kMaskOut}, {"my::where(%m,", "my::where(%m.code,"}}),
              StartsWith("S04: 'c' reads %m.code (holds %m encoded by 'bits') where the original "
                         "reads %m: '"));
}

TEST(Proof, WhatIsEncodedHasTheTypeThatTheCodecMakes) {
  EXPECT_THAT(verdict(kMask, {{kMakeMask,
                               "  %m: bool[64] = my::gt(%x)\n"
                               "  %z: u8[4] = ebb::encode(%m) {codec = \"bits\"}\n"}}),
              StartsWith("S06: 'z' makes u8[4] of %m, which encoded is u8[8]: '"));
  EXPECT_THAT(verdict(kMask, {{kMakeMask,
                               "  %m: bool[64] = my::gt(%x)\n"
                               "  %z: u8[8] = ebb::encode(%x) {codec = \"bits\"}\n"}}),
              StartsWith("S06: 'z' cannot encode %x: codec bits takes bool, not f32: '"));
}

TEST(Proof, WhatIsDecodedHasTheTypeThatWasEncoded) {
  EXPECT_THAT(
      verdict(kMask, {{kMakeMask, kMaskOut},
                      {kUseMask, replaced(std::string(kMaskBack), {{"bool[64]", "bool[8,8]"}})}}),
      StartsWith("S06: 'm.back.2' makes bool[8,8] of bool[64], which it copies: '"));
}

constexpr std::string_view kStep = R"(graph step {
  input %x: f32[8]
  %a: f32[8] = my::relu(%x)
  %b: f32[8] = my::sin(%a)
  %d: f32[8] = my::dot(%b, %a)
  return %d
}
)";
constexpr std::string_view kRelu = "  %a: f32[8] = my::relu(%x)\n";
constexpr std::string_view kDot = "  %d: f32[8] = my::dot(%b, %a)\n";
Replacements lossy_copy() {
  return {{kRelu,
           "  %a: f32[8] = my::relu(%x)\n"
           "  %z: bf16[8] = ebb::encode(%a) {codec = \"bf16\"}\n"},
          {kDot,
           "  %k: f32[8] = ebb::decode(%z) {codec = \"bf16\"}\n"
           "  %d: f32[8] = my::dot(%b, %k)\n"}};
}

TEST(Proof, ALossyCodecMustBeAllowed) {
  EXPECT_EQ(verdict(kStep, lossy_copy()),
            "S06: 'z' encodes %a by 'bf16', which may not give back every bit, and lossy codecs "
            "were not allowed: '%z: bf16[8] = ebb::encode(%a) {codec = \"bf16\"}'");
  EXPECT_EQ(verdict(kStep, lossy_copy(), {.allow_lossy = true}),
            "4 nodes compute the same; added: 1 encoding, 1 decoding");
}

// The original is the outcome of an earlier rewriting.

constexpr std::string_view kRewritten = R"(graph g {
  input %x: f32[8]
  param %w: f32[8]
  %a: f32[8] = my::relu(%x)
  %a.host: f32[8] @host = ebb::swap_out(%a)
  %v: f32[4] ~ %a + 16B = my::slice(%a)
  %b: f32[8] = my::sin(%a)
  %a.back: f32[8] = ebb::swap_in(%a.host) after b
  %a.again: f32[8] = my::relu(%x) clone of a
  %v.again: f32[4] ~ %a.again + 16B = my::slice(%a.again) clone of v
  %c: f32[8] = my::add(%a.back, %a.again)
  %d: f32[4] = my::dot(%v, %c)
  %e: f32[4] = my::dot(%v.again, %d)
  %w.1: f32[8] ~ %w = my::add_(%w!, %c)
  return %e, %w.1
}
)";

TEST(Proof, WhatWasRewrittenBeforeIsPartOfTheOriginal) {
  EXPECT_EQ(verdict(kRewritten, {}), "13 nodes compute the same; added: nothing");
  EXPECT_EQ(verdict(kRewritten, {{"my::relu(%x) clone of a", "my::relu(%x)"}}),
            "S03: the original of 'a.again' changed: '%a.again: f32[8] = my::relu(%x) "
            "clone of a' became '%a.again: f32[8] = my::relu(%x)'");
}

TEST(Proof, ASwapOutOfTheOriginalServesNewSwapIns) {
  EXPECT_EQ(verdict(kRewritten, {{"  %d: f32[4] = my::dot(%v, %c)\n",
                                  "  %a.back.2: f32[8] = ebb::swap_in(%a.host) after c\n"
                                  "  %v.back: f32[4] ~ %a.back.2 + 16B = my::slice(%a.back.2) "
                                  "clone of v\n"
                                  "  %d: f32[4] = my::dot(%v.back, %c)\n"}}),
            "13 nodes compute the same; added: 1 swap-in, 1 clone, 1 control edge");
}

TEST(Proof, ACloneOfTheOriginalMayBeSwapped) {
  EXPECT_EQ(verdict(kRewritten, {{"  %e: f32[4] = my::dot(%v.again, %d)\n",
                                  "  %k.host: f32[8] @host = ebb::swap_out(%a.again)\n"
                                  "  %k: f32[8] = ebb::swap_in(%k.host) after d\n"
                                  "  %kv: f32[4] ~ %k + 16B = my::slice(%k) clone of v\n"
                                  "  %e: f32[4] = my::dot(%kv, %d)\n"}}),
            "13 nodes compute the same; added: 1 swap-out, 1 swap-in, 1 clone, 1 control edge");
}

TEST(Proof, OneCopyOfTheOriginalServesForAnother) {
  EXPECT_EQ(verdict(kRewritten, {{"my::add(%a.back, %a.again)", "my::add(%a, %a.back)"}}),
            "13 nodes compute the same; added: nothing");
  EXPECT_THAT(verdict(kRewritten, {{"my::add(%a.back, %a.again)", "my::add(%b, %a.again)"}}),
              StartsWith("S04: 'c' reads %b where the original reads %a.back: '"));
  EXPECT_THAT(verdict(kRewritten, {{"my::add(%a.back, %a.again)", "my::add(%a.host, %a.again)"}}),
              StartsWith("S04: 'c' reads %a.host where the original reads %a.back: '"));
}

TEST(Proof, ACloneOfTheOriginalHoldsWhatItReads) {
  // A clone of other operands is one to the verifier, and no clone in what it holds.
  constexpr std::string_view kOther = R"(graph g {
  input %x: f32[8]
  input %y: f32[8]
  %a: f32[8] = my::relu(%x)
  %n: f32[8] = my::relu(%y) clone of a
  %o: f32[8] = my::relu(%x) clone of a @"cuda:1"
  %c: f32[8] = my::add(%a, %n)
  return %c
}
)";
  EXPECT_THAT(verdict(kOther, {{"my::add(%a, %n)", "my::add(%a, %a)"}}),
              StartsWith("S04: 'c' reads %a where the original reads %n: '"));
  EXPECT_THAT(verdict(kOther, {{"my::add(%a, %n)", "my::add(%o, %n)"}}),
              StartsWith("S04: 'c' reads %o where the original reads %a: '"));
}

// %b.again stands above %b, which reads a clone of what it reads, made in between.
TEST(Proof, ACloneOfTheOriginalMayStandAboveWhatItsOriginalReads) {
  constexpr std::string_view kTurnedRound = R"(graph g {
  input %x: f32[8]
  %a: f32[8] = my::relu(%x)
  %b.again: f32[8] = my::sin(%a) clone of b
  %c: f32[8] = my::neg(%b.again)
  %a.again: f32[8] = my::relu(%x) clone of a
  %b: f32[8] = my::sin(%a.again)
  return %b, %c
}
)";
  EXPECT_EQ(verdict(kTurnedRound, {{"  %c: f32[8] = my::neg(%b.again)\n", ""},
                                   {"  return", "  %c: f32[8] = my::neg(%b)\n  return"}}),
            "6 nodes compute the same; added: nothing");
}

TEST(Proof, AViewOfACopyInTheOriginalLiesWhereItLies) {
  EXPECT_THAT(verdict(kRewritten, {{"  %e: f32[4] = my::dot(%v.again, %d)\n",
                                    "  %k: f32[8] = ebb::snapshot(%a.again)\n"
                                    "  %kv: f32[4] ~ %k = my::slice(%k) clone of v\n"
                                    "  %e: f32[4] = my::dot(%kv, %d)\n"}}),
              HasSubstr("%kv lies elsewhere than a copy of %v would"));
}

constexpr std::string_view kEncodedBefore = R"(graph g {
  input %x: f32[64]
  %m: bool[64] = my::gt(%x)
  %m.code: u8[8] = ebb::encode(%m) {codec = "bits"}
  %m.host: u8[8] @host = ebb::swap_out(%m.code)
  %b: f32[64] = my::sin(%x)
  %m.in: u8[8] = ebb::swap_in(%m.host) after b
  %m.back: bool[64] = ebb::decode(%m.in) {codec = "bits"}
  %c: f32[64] = my::where(%m.back, %b)
  %d: f32[64] = my::where(%m, %c)
  return %d
}
)";

TEST(Proof, AnEncodingOfTheOriginalServesNewDecodings) {
  EXPECT_EQ(verdict(kEncodedBefore, {{"  %d: f32[64] = my::where(%m, %c)\n",
                                      "  %i: u8[8] = ebb::swap_in(%m.host) after c\n"
                                      "  %k: bool[64] = ebb::decode(%i) {codec = \"bits\"}\n"
                                      "  %d: f32[64] = my::where(%k, %c)\n"}}),
            "9 nodes compute the same; added: 1 swap-in, 1 decoding, 1 control edge");
  EXPECT_EQ(verdict(kEncodedBefore, {{"my::where(%m, %c)", "my::where(%m.back, %c)"}}),
            "9 nodes compute the same; added: nothing");
}

constexpr std::string_view kLossyBefore = R"(graph g {
  input %x: f32[8]
  %a: f32[8] = my::relu(%x)
  %z: bf16[8] = ebb::encode(%a) {codec = "bf16"}
  %k: f32[8] = ebb::decode(%z) {codec = "bf16"}
  %c: f32[8] = my::add(%a, %k)
  return %c
}
)";

TEST(Proof, ALossyCodecOfTheOriginalLosesWhatItLoses) {
  EXPECT_THAT(verdict(kLossyBefore, {{"my::add(%a, %k)", "my::add(%a, %a)"}}),
              StartsWith("S04: 'c' reads %a where the original reads %k: '"));
  EXPECT_THAT(verdict(kLossyBefore, {{"  %c: f32[8] = my::add(%a, %k)\n",
                                      "  %i: f32[8] = ebb::decode(%z) {codec = \"bf16\"}\n"
                                      "  %c: f32[8] = my::add(%i, %k)\n"}}),
              StartsWith("S06: 'i' decodes %z by 'bf16', which may not give back every bit, and "));
}

TEST(Proof, ViewsOfCopiesInTheOriginalHoldWhatTheViewsHold) {
  constexpr std::string_view kViews = R"(graph g {
  input %x: f32[8]
  %a: f32[8] = my::relu(%x)
  %v: f32[4] ~ %a + 16B = my::slice(%a)
  %k: f32[8] = ebb::snapshot(%a)
  %kv: f32[4] ~ %k + 16B = my::slice(%k) clone of v
  %kw: f32[4] ~ %k = my::slice(%k) clone of v
  %ku: f32[4] = my::slice(%k) clone of v
  %c: f32[4] = my::add(%v, %kv)
  %d: f32[4] = my::add(%kw, %ku)
  return %c, %d
}
)";
  EXPECT_EQ(verdict(kViews, {{"my::add(%v, %kv)", "my::add(%kv, %v)"}}),
            "9 nodes compute the same; added: nothing");
  // Clones to the verifier; but they lie elsewhere, whatever they make.
  EXPECT_THAT(verdict(kViews, {{"my::add(%kw, %ku)", "my::add(%v, %ku)"}}), StartsWith("S04: "));
  EXPECT_THAT(verdict(kViews, {{"my::add(%kw, %ku)", "my::add(%kw, %v)"}}), StartsWith("S04: "));
}

TEST(Proof, ACloneOfTheOriginalMayReadWhatWasDecoded) {
  constexpr std::string_view kDecodedBefore = R"(graph g {
  input %m: bool[64]
  %n: bool[64] = my::not(%m)
  %z: u8[8] = ebb::encode(%m) {codec = "bits"}
  %k: bool[64] = ebb::decode(%z) {codec = "bits"}
  %n.again: bool[64] = my::not(%k) clone of n
  %c: bool[64] = my::and(%n, %n.again)
  return %c
}
)";
  EXPECT_EQ(verdict(kDecodedBefore, {{"my::and(%n, %n.again)", "my::and(%n.again, %n)"}}),
            "6 nodes compute the same; added: nothing");
}

TEST(Proof, WhatIsNoCopyInTheOriginalHoldsItself) {
  for (const std::string_view line :
       {"ebb::snapshot(%m) {scale = 2.0}", "ebb::decode(%m) {codec = \"bits\"}",
        "ebb::decode(%m) {level = 3}", "ebb::decode(%e) {level = 3}",
        "ebb::decode(%z) {codec = \"bits\"}"}) {
    const std::string text = fmt::format(R"(graph g {{
  input %m: bool[64]
  %e: u8[8] = ebb::encode(%m) {{level = 3}}
  %y: u8[8] = ebb::encode(%m) {{codec = "bits"}}
  %z: u8[1] = ebb::encode(%y) {{codec = "bits"}}
  %k: bool[64] = {}
  %c: bool[64] = my::not(%k)
  return %c
}}
)",
                                         line);
    for (const bool allow_lossy : {false, true}) {
      EXPECT_THAT(verdict(text, {{"my::not(%k)", "my::not(%m)"}}, {.allow_lossy = allow_lossy}),
                  StartsWith("S04: 'c' reads %m where the original reads %k: '"))
          << line;
    }
  }
}

TEST(Proof, WhatIsEncodedInTheOriginalHoldsACodeOfWhatWasEncoded) {
  const auto reads_other = [](std::string_view first, std::string_view second) {
    const std::string text = fmt::format(R"(graph g {{
  input %a: f32[8]
  %s: u8[1] = ebb::encode(%a) {{codec = "nonpositive"}}
  %k: f32[8] = ebb::decode(%s) {{codec = "nonpositive"}}
  %y: bf16[8] = ebb::encode({}
  %z: bf16[8] = ebb::encode({}
  %c: f32[8] = my::sin(%y)
  return %c
}}
)",
                                         first, second);
    return verdict(text, {{"my::sin(%y)", "my::sin(%z)"}}, {.allow_lossy = true});
  };
  EXPECT_EQ(reads_other("%a) {codec = \"bf16\"}", "%a) {codec = \"bf16\"}"),
            "6 nodes compute the same; added: nothing");
  EXPECT_THAT(reads_other("%a) {level = 3}", "%a) {level = 4}"), StartsWith("S04: "));
  EXPECT_THAT(reads_other("%a) {codec = \"bf16\"}", "%k) {codec = \"bf16\"}"), StartsWith("S04: "));
  constexpr std::string_view kTwice = R"(graph g {
  input %a: f32[8]
  %h: bf16[8] = ebb::encode(%a) {codec = "bf16"}
  %y: u8[1] = ebb::encode(%h) {codec = "nonpositive"}
  %z: u8[1] = ebb::encode(%a) {codec = "nonpositive"}
  %c: f32[8] = my::sin(%y)
  return %c
}
)";
  EXPECT_THAT(verdict(kTwice, {{"my::sin(%y)", "my::sin(%z)"}}, {.allow_lossy = true}),
              StartsWith("S04: "));
}

TEST(Proof, ACodecThatNobodyKnowsGivesBackNothing) {
  constexpr std::string_view kZip = R"(graph g {
  input %m: bool[64]
  %z: u8[8] = ebb::encode(%m) {codec = "zip"}
  %k: bool[64] = ebb::decode(%z) {codec = "zip"}
  %c: bool[64] = my::not(%k)
  return %c
}
)";
  for (const bool allow_lossy : {false, true}) {
    EXPECT_THAT(verdict(kZip, {{"my::not(%k)", "my::not(%m)"}}, {.allow_lossy = allow_lossy}),
                StartsWith("S04: 'c' reads %m where the original reads %k: '"));
  }
}

// A copy has the elements. What lies between them is somebody's, or nobody's yet.
TEST(Proof, ACopyWithGapsHasWhatNobodyWroteBetweenTheElements) {
  const auto between = [](std::string_view maker) {
    const std::string text = fmt::format(R"(graph g {{
  {}
  %v: f32[2] ~ %x + 8B = my::between(%a)
  %c: f32[2] = my::sin(%v)
  return %c
}}
)",
                                         maker);
    return verdict(text, {{"  %c: f32[2] = my::sin(%v)\n",
                           "  %k: f32[2,2] strides [4,1] = ebb::snapshot(%a)\n"
                           "  %kv: f32[2] ~ %k + 8B = my::between(%k) clone of v\n"
                           "  %c: f32[2] = my::sin(%kv)\n"}});
  };
  EXPECT_THAT(between("%x: f32[2,2] strides [4,1] = my::op()\n"
                      "  %a: f32[2,2] strides [4,1] ~ %x = my::view(%x)"),
              StartsWith("4 nodes compute the same"));
  EXPECT_THAT(between("input %x: f32[2,2] strides [4,1]\n"
                      "  %a: f32[2,2] strides [4,1] ~ %x = my::view(%x)"),
              HasSubstr("lies elsewhere"));
  EXPECT_THAT(between("%x: f32[6] = my::op()\n"
                      "  %a: f32[2,2] strides [4,1] ~ %x = my::view(%x)"),
              HasSubstr("lies elsewhere"));
  EXPECT_THAT(between("%x: f32[2,2] strides [4,1] = my::op()\n"
                      "  %a: f32[2,2] strides [4,1] ~ %x = my::add_(%x!)"),
              HasSubstr("lies elsewhere"));
}

TEST(Proof, AViewMayBeMadeAgainWhereItIsWhateverLiesThere) {
  constexpr std::string_view kGaps = R"(graph g {
  input %x: f32[2,2] strides [4,1]
  %k: f32[2,2] strides [4,1] = ebb::snapshot(%x)
  %v: f32[2] ~ %k + 8B = my::between(%k)
  %c: f32[2] = my::sin(%v)
  return %c
}
)";
  EXPECT_EQ(verdict(kGaps, {{"  %c: f32[2] = my::sin(%v)\n",
                             "  %v2: f32[2] ~ %k + 8B = my::between(%k) clone of v\n"
                             "  %c: f32[2] = my::sin(%v2)\n"}}),
            "4 nodes compute the same; added: 1 clone");
  EXPECT_THAT(verdict(kGaps, {{"  %c: f32[2] = my::sin(%v)\n",
                               "  %v2: f32[2] ~ %k = my::between(%k) clone of v\n"
                               "  %c: f32[2] = my::sin(%v2)\n"}}),
              HasSubstr("lies elsewhere"));
  EXPECT_THAT(verdict(kGaps, {{"  %c: f32[2] = my::sin(%v)\n",
                               "  %v2: f32[2] ~ %x + 8B = my::between(%x) clone of v\n"
                               "  %c: f32[2] = my::sin(%v2)\n"}}),
              HasSubstr("lies elsewhere"));
}

TEST(Proof, ACopyOfUnknownSizeIsTrusted) {
  constexpr std::string_view kUnknown = R"(graph g {
  %x: f32[?] = my::op()
  %v: f32[?] ~ %x + 8B = my::slice(%x)
  %c: f32[2] = my::sin(%v)
  return %c
}
)";
  EXPECT_EQ(verdict(kUnknown, {{"  %c: f32[2] = my::sin(%v)\n",
                                "  %k: f32[?] = ebb::snapshot(%x)\n"
                                "  %kv: f32[?] ~ %k + 8B = my::slice(%k) clone of v\n"
                                "  %c: f32[2] = my::sin(%kv)\n"}}),
            "3 nodes compute the same; added: 1 snapshot, 1 clone");
  constexpr std::string_view kPart = R"(graph g {
  input %x: f32[8]
  %u: f32[4] ~ %x = my::slice(%x)
  %v: f32[?] ~ %x + 8B = my::slice(%u)
  %c: f32[2] = my::sin(%v)
  return %c
}
)";
  EXPECT_THAT(verdict(kPart, {{"  %c: f32[2] = my::sin(%v)\n",
                               "  %k: f32[4] = ebb::snapshot(%u)\n"
                               "  %kv: f32[?] ~ %k + 8B = my::slice(%k) clone of v\n"
                               "  %c: f32[2] = my::sin(%kv)\n"}}),
              HasSubstr("lies elsewhere"));
}

TEST(Proof, RefusesACopyOfTheOriginalThatLetsOneEffectOvertakeAnother) {
  constexpr std::string_view kEffects = R"(graph g {
  input %x: f32[8]
  %a: f32[8] = my::relu(%x)
  first: my::print(%x) effect
  %k: f32[8] = ebb::snapshot(%a) after first
  second: my::print(%k) effect
  return %a
}
)";
  EXPECT_THAT(verdict(kEffects, {{"my::print(%k)", "my::print(%a)"}}),
              StartsWith("S10: 'second' does not wait for 'k', as it does in the original: '"));
  EXPECT_EQ(verdict(kEffects, {{"my::print(%k) effect", "my::print(%a) effect after k"}}),
            "5 nodes compute the same; added: 1 control edge");
}

}  // namespace
}  // namespace ebb

// Codecs that serve some readers only, in the proof. What the swap rule makes of
// codecs is in tests/text/codec.test.
#include "ebb/rewrite/codec.h"

#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/graph/parse.h"
#include "ebb/rewrite/proof.h"

namespace ebb {
namespace {

using testing::StartsWith;

constexpr std::string_view kRelu = R"(graph g {
  input %x: f32[20]
  %a: f32[20] = aten::relu(%x)
  %b: f32[20] = aten::sin(%a)
  %ga: f32[20] = my::op(%b)
  %gx: f32[20] = aten::threshold_backward(%ga, %a) {threshold = 0}
  %e: f32[20] = aten::mul(%gx, %a)
  return %e
}
)";

// Of the graph above with these lines for the last two operations.
std::string verdict(std::string_view lines, bool allow_lossy = false) {
  std::string text(kRelu);
  const std::size_t begin = text.find("  %gx:");
  text.replace(begin, text.find("  return") - begin, lines);
  const auto rewritten = parse_valid(text);
  if (!rewritten) return rewritten.error().render("rewritten");
  const auto proof =
      prove_same(parse_valid(kRelu).value(), *rewritten, {.allow_lossy = allow_lossy});
  return proof ? to_text(*proof) : proof.error().code + ": " + proof.error().message;
}

TEST(CodecForReaders, IsProvedWhereItServesThem) {
  EXPECT_EQ(verdict(R"(  %code: u8[3] = ebb::encode(%a) {codec = "nonpositive"}
  %host: u8[3] @host = ebb::swap_out(%code)
  %in: u8[3] = ebb::swap_in(%host) after ga
  %back: f32[20] = ebb::decode(%in) {codec = "nonpositive"}
  %gx: f32[20] = aten::threshold_backward(%ga, %back) {threshold = 0}
  %e: f32[20] = aten::mul(%gx, %a)
)"),
            "6 nodes compute the same; added: 1 swap-out, 1 swap-in, 1 encoding, 1 decoding, 1 "
            "control edge");
}

TEST(CodecForReaders, IsProvedOnTheHostAsWell) {
  EXPECT_EQ(verdict(R"(  %host: f32[20] @host = ebb::swap_out(%a)
  %code: u8[3] @host = ebb::encode(%host) {codec = "nonpositive"}
  %in: f32[20] @host = ebb::decode(%code) {codec = "nonpositive"} after ga
  %back: f32[20] = ebb::swap_in(%in)
  %gx: f32[20] = aten::threshold_backward(%ga, %back) {threshold = 0}
  %e: f32[20] = aten::mul(%gx, %a)
)"),
            "6 nodes compute the same; added: 1 swap-out, 1 swap-in, 1 encoding, 1 decoding, 1 "
            "control edge");
}

constexpr std::string_view kDecoded = R"(  %code: u8[3] = ebb::encode(%a) {codec = "nonpositive"}
  %back: f32[20] = ebb::decode(%code) {codec = "nonpositive"}
)";

TEST(CodecForReaders, IsRefusedForOtherReadersThoughLossyCodecsAreAllowed) {
  const std::string lines =
      std::string(kDecoded) +
      "  %gx: f32[20] = aten::threshold_backward(%ga, %back) {threshold = 0}\n"
      "  %e: f32[20] = aten::mul(%gx, %back)\n";
  for (const bool allow_lossy : {false, true}) {
    EXPECT_THAT(verdict(lines, allow_lossy),
                StartsWith("S04: 'e' reads %back (holds %a), of which codec 'nonpositive' gives "
                           "back too little for it: "));
  }
}

TEST(CodecForReaders, IsRefusedForClonesThatItDoesNotServe) {
  EXPECT_THAT(verdict(std::string(kDecoded) +
                      "  %gx: f32[20] = aten::threshold_backward(%ga, %a) {threshold = 0}\n"
                      "  %b.again: f32[20] = aten::sin(%back) clone of b\n"
                      "  %e: f32[20] = aten::mul(%gx, %a)\n"),
              StartsWith("S07: "));
}

TEST(CodecForReaders, IsNotCopiedFurther) {
  EXPECT_THAT(verdict(std::string(kDecoded) +
                      "  %kept: f32[20] = ebb::snapshot(%back)\n"
                      "  %gx: f32[20] = aten::threshold_backward(%ga, %kept) {threshold = 0}\n"
                      "  %e: f32[20] = aten::mul(%gx, %a)\n"),
              StartsWith("S06: 'kept' reads %back (holds %a), of which codec 'nonpositive' "
                         "gives back too little for it: "));
}

}  // namespace
}  // namespace ebb

#include "ebb/graph/signature.h"

#include <set>

#include <gtest/gtest.h>

#include "ebb/graph/parse.h"

namespace ebb {
namespace {

// The signature of the last line of a graph with these declarations in front.
std::string signature_of(const std::string& line) {
  const auto graph = parse_valid(R"(graph g {
  input %x: f32[2,3]
  input %y: f32[2,3]
  input %t: f32[2,3] strides [1,2]
  input %b: bf16[2,3]
  input %h: f32[2,3] @host
  param %w: f32[8]
  param %m: f32[8]
  scalar $lr: f64
  scalar $momentum: f64
  scalar $n: i64
  %part: f32[2] ~ %w + 8B = my::part(%w)
  )" + line + "\n  return\n}\n");
  EXPECT_TRUE(graph) << graph.error().render("graph");
  return signature(*graph, graph->order().back());
}

TEST(Signature, ReadsAsTheCall) {
  EXPECT_EQ(signature_of("%r: f32[2,3], %s: i64[] = my::op(%x, none, [%b, %t], [], [%h]) "
                         "{z = 1, a = [1.0, -0.0, nan, $lr], m = \"1\", d = f32, h = hex\"00ff\", "
                         "n = none, k = true} random @\"cuda:0\""),
            "my::op(f32[2,3], none, [bf16[2,3], f32[2,3] strides [1,2]], [], [f32[2,3] @host]) "
            "{a = [1.0, -0.0, nan, $f64], d = f32, h = hex\"00ff\", k = true, m = \"1\", n = none, "
            "z = 1} random @\"cuda:0\" -> f32[2,3], i64[]");
  EXPECT_EQ(signature_of("%w.1: f32[8] ~ %w = my::add_(%w!, %x) {alpha = $lr}"),
            "my::add_(f32[8]!, f32[2,3]) {alpha = $f64} -> f32[8] ~ 0 + 0B");
  EXPECT_EQ(signature_of("%v: f32[1] ~ %w + 4B = my::before(%x, %part)"),
            "my::before(f32[2,3], f32[2]) -> f32[1] ~ 1 + -4B");
  EXPECT_EQ(signature_of("$s: f64 = scalar::sub(1.0, $lr)"), "scalar::sub(1.0, $f64) -> $f64");
  EXPECT_EQ(signature_of("$s: f64 = aten::item(%x)"), "aten::item(f32[2,3]) -> $f64");
  EXPECT_EQ(signature_of("print: my::print(%x) effect"), "my::print(f32[2,3]) effect");
  EXPECT_EQ(signature_of("input %z: f32[4]"), "input -> f32[4]");
  EXPECT_EQ(signature_of("%z: f32[4] = \"an op\"()"), "\"an op\"() -> f32[4]");
}

TEST(Signature, LeavesOutNamesPlacesOrderCostsAndNotes) {
  const std::string plain = signature_of("%r: f32[2,3] = my::op(%x, %y) {a = $lr, b = 2}");
  for (const char* same : {
           "%other: f32[2,3] = my::op(%y, %x) {a = $lr, b = 2}",
           "%r: f32[2,3] = my::op(%x, %x) {a = $momentum, b = 2}",
           "%r: f32[2,3] = my::op(%x, %y) {b = 2, a = $lr}",
           "%r: f32[2,3] = my::op(%x, %y) {a = $lr, b = 2, ebb.at = \"model.py:3\"}",
           "%r: f32[2,3] = my::op(%x, %y) {a = $lr, b = 2, note.position = 7}",
           "%r: f32[2,3] = my::op(%x, %y) {a = $lr, b = 2} after part takes 3us workspace 1MiB",
       }) {
    EXPECT_EQ(signature_of(same), plain) << same;
  }
}

TEST(Signature, DiffersWhenAnythingElseDoes) {
  std::set<std::string> seen;
  const std::vector<const char*> lines = {
      "%r: f32[2,3] = my::op(%x, %y) {a = 1}",
      "%r: f32[2,3] = my::op.out(%x, %y) {a = 1}",
      "%r: f32[2,3] = my::op(%x, %t) {a = 1}",
      "%r: f32[2,3] = my::op(%x, %b) {a = 1}",
      "%r: f32[2,3] = my::op(%x, %h) {a = 1}",
      "%r: f32[2,3] = my::op(%x, none) {a = 1}",
      "%r: f32[2,3] = my::op(%x, []) {a = 1}",
      "%r: f32[2,3] = my::op(%x, [%y]) {a = 1}",
      "%r: f32[2,3] = my::op([%x, %y]) {a = 1}",
      "%r: f32[2,3] = my::op([%x], [%y]) {a = 1}",
      "%r: f32[2,3] = my::op([%x], %y) {a = 1}",
      "%r: f32[2,3] = my::op(%x) {a = 1}",
      "%r: f32[2,3] = my::op(%x, %y)",
      "%r: f32[2,3] = my::op(%x, %y) {b = 1}",
      "%r: f32[2,3] = my::op(%x, %y) {a = 1.0}",
      "%r: f32[2,3] = my::op(%x, %y) {a = true}",
      "%r: f32[2,3] = my::op(%x, %y) {a = \"1\"}",
      "%r: f32[2,3] = my::op(%x, %y) {a = hex\"01\"}",
      "%r: f32[2,3] = my::op(%x, %y) {a = [1]}",
      "%r: f32[2,3] = my::op(%x, %y) {a = $lr}",
      "%r: f32[2,3] = my::op(%x, %y) {a = $n}",
      "%r: f32[2,3] = my::op(%x, %y) {a = 1} random",
      "%r: f32[2,3] = my::op(%x, %y) {a = 1} effect",
      "%r: f32[2,3] = my::op(%x, %y) {a = 1} @\"cuda:1\"",
      "%r: f32[2,3] strides [1,2] = my::op(%x, %y) {a = 1}",
      "%r: f32[2,3] ~ %x = my::op(%x, %y) {a = 1}",
      "%r: f32[2,3] ~ %y = my::op(%x, %y) {a = 1}",
      "%r: f32[2,3] ~ %x = my::op(%x!, %y) {a = 1}",
      "%r: f32[2] ~ %x = my::op(%x, %y) {a = 1}",
      "%r: f32[2] ~ %x + 4B = my::op(%x, %y) {a = 1}",
      "%r: f32[2,3], %s: f32[] = my::op(%x, %y) {a = 1}",
  };
  for (const char* line : lines) EXPECT_TRUE(seen.insert(signature_of(line)).second) << line;
  EXPECT_EQ(seen.size(), lines.size());
}

}  // namespace
}  // namespace ebb

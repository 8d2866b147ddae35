// The graphs that several tests of the proof begin with, and pieces of them to replace.
#pragma once

#include <string_view>

namespace ebb {

inline constexpr std::string_view kStep = R"(graph step {
  input %x: f32[8]
  param %w: f32[8]
  scalar $lr: f64
  %h: f32[8] = my::mul(%x, %w) takes 40us
  %a: f32[8] = my::relu(%h)
  %v: f32[4] ~ %a + 16B = my::slice(%a) {start = 4}
  %s: f32[8] = my::sin(%a)
  %b: f32[8] = my::add(%s, %a)
  %c: f32[4] = my::neg(%v)
  %g: f32[8] = my::cat([%b, %c], none) {dim = 0} after s workspace 1KiB
  %w.1: f32[8] ~ %w = my::add_(%w!, %g) {alpha = $lr}
  %d: f32[8] = my::dot(%w.1, %a)
  return %d, %s, %w.1
}
)";

inline constexpr std::string_view kRelu = "  %a: f32[8] = my::relu(%h)\n";
inline constexpr std::string_view kReluOut =
    "  %a: f32[8] = my::relu(%h)\n  %a.host: f32[8] @host = ebb::swap_out(%a)\n";
inline constexpr std::string_view kDot = "  %d: f32[8] = my::dot(%w.1, %a)\n";

// With random operations and effects.
inline constexpr std::string_view kWorld = R"(graph g {
  input %x: f32[8]
  param %w: f32[8]
  %m: f32[8] = my::dropout(%x) random
  %n: f32[8] = my::dropout(%x) random
  log: my::print(%w) effect
  %w.1: f32[8] ~ %w = my::add_(%w!, %m)
  end: my::print(%w.1) effect
  %y: f32[8] = my::add(%m, %n)
  return %y
}
)";

}  // namespace ebb

#include "ebb/plan/alike.h"

#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/graph/parse.h"

namespace ebb {
namespace {

using ::testing::ElementsAre;

// By the names of their values.
std::vector<std::string> alike_in(const std::string& text) {
  const Graph graph = parse_valid(text).value();
  const Device device = find_device("h200").value();
  const StepModel model = model_step(graph, estimate_costs(graph, device, nullptr).value()).value();
  const std::vector<Gap> gaps = find_gaps(model);
  std::vector<std::string> names;
  for (const std::vector<std::uint32_t>& alike : find_alike(model, gaps)) {
    names.emplace_back();
    for (const std::uint32_t gap : alike) {
      names.back() += names.back().empty() ? "" : " ";
      names.back() += graph.name(model.values[gaps[gap].value].tensor);
      if (gaps[gap].is_tail()) names.back() += " to the end";
    }
  }
  return names;
}

TEST(Alike, AreGapsAtTheSamePlaceOfRepeatedBlocks) {
  EXPECT_THAT(alike_in(R"(graph step {
  input %x: f32[16]
  %a: f32[16] = my::op(%x) takes 5us
  %b: f32[16] = my::op(%a) takes 5us
  %c: f32[16] = my::op(%b) takes 5us
  %wide: f32[32] = my::widen(%c) takes 9us
  %s: f32[] = my::sum(%wide) takes 1us
  %gwide: f32[16] = my::back(%s, %wide) takes 9us
  %gc: f32[16] = my::back(%gwide, %c) takes 5us
  %gb: f32[16] = my::back(%gc, %b) takes 5us
  %ga: f32[16] = my::back(%gb, %a) takes 5us
  return %ga
}
)"),
              ElementsAre("x to the end", "a b", "a to the end b to the end c to the end", "c",
                          "wide to the end", "s to the end", "gwide to the end", "gc to the end"));
}

}  // namespace
}  // namespace ebb

// What no text test can hold.
#include "ebb/graph/parse.h"

#include <sys/mman.h>

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ebb/graph/print.h"

namespace ebb {
namespace {

TEST(Parse, P01ATextOver4GiBIsRefusedUnread) {
  constexpr std::size_t kSize = std::size_t{1} << 32U;
  // Nobody may touch it: reading one byte would end the test.
  void* memory =
      ::mmap(nullptr, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const auto graph = parse(std::string_view(static_cast<const char*>(memory), kSize));
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().render("g.ebb"),
            "g.ebb: P01: the text is larger than 4 GiB; split the graph");
  ::munmap(memory, kSize);
}

// Quadratic in the length of a line would be ten thousand million steps.
TEST(Parse, LongLinesTakeLinearTime) {
  constexpr int kCount = 100'000;
  std::string results;
  std::string updates;
  std::string params;
  std::string attributes;
  std::string controls;
  for (int i = 0; i < kCount; ++i) {
    const char* comma = i == 0 ? "" : ", ";
    params += fmt::format("  param %p{}: f32[4]\n", i);
    results += fmt::format("{}%r{}: f32[4] ~ %p{}", comma, i, i);
    updates += fmt::format("{}%p{}!", comma, i);
    attributes += fmt::format("{}k{} = {}", comma, i, i);
    controls += fmt::format("{}p{}", comma, i);
  }
  const std::string text =
      fmt::format("graph g {{\n{}  {} = my::op([{}]) {{{}}} after {}\n  return\n}}\n", params,
                  results, updates, attributes, controls);
  const auto graph = parse_valid(text);
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(print(*graph), text);
}

TEST(Parse, RemembersTheLineOfEachNode) {
  const auto parsed =
      parse("graph g {\n\n  # comment\n  input %x: f32[4]\n  a: my::op(%x)\n  return\n}\n");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->lines, (std::vector<int>{4, 5}));
}

}  // namespace
}  // namespace ebb

// What recipes do to a program; what becomes of graphs is in tests/text/program.test.
#include <functional>

#include <gtest/gtest.h>

#include "ebb/base/check.h"
#include "ebb/graph/parse.h"
#include "ebb/lower/program.h"
#include "ebb/order/elementwise.h"

namespace ebb {
namespace {

constexpr std::uint32_t kUnfreed = 0;

Request result(std::int64_t size, std::int32_t index = 0) {
  return {.size = Bytes{size}, .result = index, .freed_after = kUnfreed};
}
Request temporary(std::int64_t size, std::uint32_t freed_after) {
  return {.size = Bytes{size}, .result = Request::kTemporary, .freed_after = freed_after};
}
Request kept(std::int64_t size) {
  return {.size = Bytes{size}, .result = Request::kKept, .freed_after = kUnfreed};
}

// A graph and what its operations ask for, by name.
struct Case {
  Graph graph;
  std::vector<Recipe> recipes;

  explicit Case(const std::string& lines)
      : graph(parse_valid("graph g {\n" + lines + "}\n").value()), recipes(graph.node_count()) {}

  Case& asks(const char* name, std::vector<Request> requests) {
    recipes[graph.find_node(name).index()].requests = std::move(requests);
    return *this;
  }

  [[nodiscard]] std::string lowered(const LowerOptions& options = {}) const {
    const auto program = lower(graph, recipes, options);
    if (!program) return program.error().message;
    const Status right = check_program(graph, recipes, *program, options);
    return right ? to_text(graph, *program) : right.error().message;
  }
};

const char* const kChain = R"(  input %x: f32[16]
  %a: f32[16] = my::op(%x)
  %b: f32[16] = aten::relu(%a)
  return %b
)";

TEST(Lower, PacksTheTemporariesOfAnOperationByWhenTheyAreGivenBack) {
  // The first is given back before the third is asked for; the second is there to the end.
  const Case test =
      Case(kChain).asks("a", {temporary(100, 2), temporary(50, 4), temporary(70, 4), result(64)});
  const auto program = lower(test.graph, test.recipes, {.reuse_in_place = false});
  ASSERT_TRUE(program);
  EXPECT_TRUE(check_program(test.graph, test.recipes, *program, {.reuse_in_place = false}));
  const auto servings = program->servings_of(program->instructions[0]);
  EXPECT_EQ(servings[0].offset, servings[2].offset);
  // %x, 128 for the first and the third, 64 for the second, %a.
  EXPECT_EQ(program->arena_size, Bytes{64 + 128 + 64 + 64});
}

TEST(Lower, ServesElsewhereWhatALibraryKeeps) {
  const std::string text = Case(kChain).asks("a", {kept(1000), result(64)}).lowered();
  EXPECT_NE(text.find("asks for 1000 elsewhere, "), std::string::npos) << text;
  EXPECT_NE(text.find("arena 128,"), std::string::npos) << text;
}

TEST(Lower, GivesAStorageWhatItsKernelAsksFor) {
  const std::string text = Case(kChain).asks("a", {result(300)}).lowered();
  // 320 for %a and 64 for %x; %b is too small to take over %a.
  EXPECT_NE(text.find("arena 384, state 0, bound 384, 0 in place"), std::string::npos) << text;
}

TEST(Lower, TakesOverOnlyWhatIsAsLargeAsWhatIsAskedFor) {
  const auto reused = [](std::vector<Request> a, std::vector<Request> b) {
    const Case test = Case(kChain).asks("a", std::move(a)).asks("b", std::move(b));
    EXPECT_EQ(test.lowered().substr(0, 9), "program g");
    return lower(test.graph, test.recipes)->reused_in_place;
  };
  EXPECT_EQ(reused({result(64)}, {result(64)}), 1U);
  EXPECT_EQ(reused({result(80)}, {result(80)}), 1U);
  EXPECT_EQ(reused({result(80)}, {result(64)}), 0U);
  EXPECT_EQ(reused({result(64)}, {result(80)}), 0U);
  EXPECT_EQ(reused({result(64)}, {}), 0U) << "a result that is copied from elsewhere";
  EXPECT_EQ(reused({}, {result(64)}), 1U) << "in bytes that were copied from elsewhere";
  EXPECT_EQ(reused({result(64)}, {temporary(8, 1), result(64)}), 1U);
}

TEST(Lower, PlacesResultsThatNobodyAsksFor) {
  const Case test(kChain);
  const auto program = lower(test.graph, test.recipes);
  ASSERT_TRUE(program);
  EXPECT_TRUE(check_program(test.graph, test.recipes, *program));
  EXPECT_EQ(program->arena_size, Bytes{128}) << "%a beside %x, %b where %x was";
  EXPECT_TRUE(program->servings.empty());
}

TEST(Lower, PutsTheStateWhereItWasForABatchOfAnotherSize) {
  const auto program = [](int batch) {
    const Case test(fmt::format(R"(  input %x: f32[{0},8]
  param %w: f32[8,8]
  param %b: f32[8]
  %h: f32[{0},8] = aten::addmm(%b, %x, %w)
  %b.1: f32[8] ~ %b = my::add_(%b!, %h)
  return %h
)",
                                batch));
    return lower(test.graph, test.recipes).value();
  };
  const Program small = program(2);
  const Program large = program(64);
  EXPECT_EQ(small.state_size, large.state_size);
  for (const std::size_t tensor : {1U, 2U}) EXPECT_EQ(small.offsets[tensor], large.offsets[tensor]);
  EXPECT_LT(small.arena_size, large.arena_size);
}

TEST(Lower, AlignsEverythingAsItIsTold) {
  const Case test = Case(kChain).asks("a", {temporary(1, 1), result(64)});
  const auto program = lower(test.graph, test.recipes, {.alignment = Bytes{512}});
  ASSERT_TRUE(program);
  for (const Bytes offset : program->offsets) EXPECT_EQ(offset.count % 512, 0);
  for (const Serving& serving : program->servings) EXPECT_EQ(serving.offset.count % 512, 0);
  EXPECT_EQ(program->arena_size, Bytes{3 * 512});
}

TEST(Lower, RefusesRecipesThatDoNotFitTheirNode) {
  const auto refusal = [](const char* name, std::vector<Request> requests) {
    return Case(R"(  input %x: f32[16]
  %v: f32[4] ~ %x, %a: f32[16] = my::op(%x)
  return %a
)")
        .asks(name, std::move(requests))
        .lowered();
  };
  const std::string node = "'%v: f32[4] ~ %x, %a: f32[16] = my::op(%x)'";
  EXPECT_EQ(refusal("v", {result(64, 1), result(64, 2)}),
            "request 2 of 2 in the recipe of " + node + " is for result 2, of 2; measure it again");
  EXPECT_EQ(
      refusal("v", {result(64, 1), result(64, 1)}),
      "request 2 of 2 in the recipe of " + node + " is a second one for %a; measure it again");
  EXPECT_EQ(refusal("v", {result(16, 0)}),
            "request 1 of 1 in the recipe of " + node +
                " is for %v, which shares the bytes of %x; measure it again");
  EXPECT_EQ(refusal("v", {result(63, 1)}),
            "request 1 of 1 in the recipe of " + node +
                " has 63B for %a, which needs 64B; measure it again");
  EXPECT_EQ(refusal("v", {temporary(8, 0)}),
            "request 1 of 1 in the recipe of " + node +
                " is temporary, but given back after request 0; measure it again");
  EXPECT_EQ(refusal("v", {temporary(8, 2)}),
            "request 1 of 1 in the recipe of " + node +
                " is temporary, but given back after request 2; measure it again");
  EXPECT_EQ(refusal("v", {temporary(0, 1)}),
            "request 1 of 1 in the recipe of " + node + " is for nothing; measure it again");
}

TEST(CheckProgram, FindsEveryKindOfMistake) {
  const Case test = Case(R"(  input %x: f32[16]
  param %w: f32[16]
  const %c: f32[16]
  scalar $s: f64
  $n: f64 = scalar::neg($s)
  %a: f32[16] = my::op(%x, %w, %c) {k = $n}
  %half: f32[8] ~ %a + 32B = aten::slice(%a)
  %b: f32[16] = aten::relu(%a)
  %y: f32[16] = my::op(%b, %half)
  return %y
)")
                        .asks("a", {temporary(40, 3), temporary(40, 3), result(64), kept(9)})
                        .asks("b", {result(64)})
                        .asks("y", {result(64)});
  const Program right = lower(test.graph, test.recipes).value();
  const auto verdict = [&](const std::function<void(Program&)>& spoil) {
    Program program = right;
    spoil(program);
    const Status status = check_program(test.graph, test.recipes, program);
    return status ? std::string("right") : status.error().message;
  };
  const auto index = [&](const char* name) { return test.graph.find_tensor(name).index(); };
  const auto at = [&](const char* name) { return right.offsets[index(name)].count; };
  EXPECT_EQ(verdict([](Program&) {}), "right");
  EXPECT_EQ(verdict([](Program& p) { p.offsets.pop_back(); }),
            "the program is wrong: 6 offsets for 7 tensors");
  EXPECT_EQ(verdict([](Program& p) { p.arena_size = p.state_size; }),
            fmt::format("the program is wrong: state 128 <= bound {} <= arena 128 does not hold",
                        right.bound.count));
  EXPECT_EQ(verdict([&](Program& p) { p.offsets[index("y")] = p.arena_size; }),
            fmt::format("the program is wrong: %y at {0}..{1} is not inside the arena of {0}",
                        right.arena_size.count, right.arena_size.count + 64));
  EXPECT_EQ(verdict([&](Program& p) { p.offsets[index("x")] -= Bytes{8}; }),
            fmt::format("the program is wrong: %x at {}..{} is not aligned to 64", at("x") - 8,
                        at("x") + 56));
  EXPECT_EQ(verdict([&](Program& p) { p.offsets[index("half")] += Bytes{4}; }),
            fmt::format("the program is wrong: %half is not where %a at {}..{} says", at("a"),
                        at("a") + 64));
  EXPECT_EQ(verdict([&](Program& p) { std::swap(p.offsets[index("w")], p.offsets[index("c")]); }),
            "the program is wrong: %c at 0..64 is out of line: it is state, of 128");
  EXPECT_EQ(verdict([&](Program& p) { p.offsets[index("x")] = Bytes{64}; }),
            "the program is wrong: %x at 64..128 is among the state, of 128");
  EXPECT_EQ(verdict([](Program& p) { p.instructions.pop_back(); }),
            "the program is wrong: 'y' has no instruction in its place");
  EXPECT_EQ(verdict([](Program& p) { p.instructions.push_back(p.instructions[0]); }),
            "the program is wrong: there are more instructions than lines");
  EXPECT_EQ(verdict([](Program& p) { p.instructions[0].kind = InstructionKind::kKernel; }),
            "the program is wrong: 'n' is of the wrong kind");
  EXPECT_EQ(verdict([](Program& p) { p.instructions[1].serving_count = 1; }),
            "the program is wrong: 'a' makes 4 requests, and 1 are served");
  EXPECT_EQ(verdict([](Program& p) { p.servings[0].size = Bytes{39}; }),
            "the program is wrong: request 1 of 'a' is for 40, served are 39");
  EXPECT_EQ(verdict([](Program& p) { p.servings[3].offset = Bytes{0}; }),
            "the program is wrong: request 4 of 'a' is served on the wrong side");
  EXPECT_EQ(verdict([](Program& p) { p.servings[2].offset = p.servings[0].offset; }),
            fmt::format("the program is wrong: request 3 of 'a' is served at {}, but %a lies at {}",
                        right.servings[0].offset.count, at("a")));
  EXPECT_EQ(verdict([](Program& p) { p.servings[1].offset = p.servings[0].offset; }),
            fmt::format("the program is wrong: temporary 1 of 'a' at {0}..{1} and temporary 2 of "
                        "'a' at {0}..{1} overlap",
                        right.servings[0].offset.count, right.servings[0].offset.count + 40));
  EXPECT_EQ(verdict([&](Program& p) { p.servings[0].offset = p.offsets[index("x")]; }),
            fmt::format("the program is wrong: temporary 1 of 'a' at {0}..{1} and %x at {0}..{2} "
                        "overlap",
                        at("x"), at("x") + 40, at("x") + 64));
  EXPECT_EQ(verdict([](Program& p) { p.servings[0].offset = Bytes{0}; }),
            "the program is wrong: temporary 1 of 'a' at 0..40 is among the state");
  // %half is read after 'b', so %b may not lie where %a does.
  EXPECT_EQ(verdict([&](Program& p) {
              p.offsets[index("b")] = p.offsets[index("a")];
              p.servings[4].offset = p.offsets[index("a")];
            }),
            fmt::format("the program is wrong: %a at {0}..{1} and %b at {0}..{1} overlap at '%b: "
                        "f32[16] = aten::relu(%a)'",
                        at("a"), at("a") + 64));
  EXPECT_EQ(verdict([](Program& p) { p.reused_in_place = 1; }),
            "the program is wrong: 0 results took over bytes, the program says 1");
}

TEST(CheckProgram, FindsEveryKindOfMistakeOnTheHost) {
  const Case test = Case(R"(  param %w: f32[16]
  %a: f32[16] = my::op(%w)
  %a.host: f32[16] @host = ebb::swap_out(%a)
  %b: f32[16] = my::op(%w)
  %b.host: f32[16] @host = ebb::swap_out(%b)
  %kept: f32[16] = ebb::snapshot(%w)
  %w.1: f32[16] ~ %w = my::add_(%w!, %b)
  %a.back: f32[16] = ebb::swap_in(%a.host)
  %b.back: f32[16] = ebb::swap_in(%b.host)
  %y: f32[16] = my::op(%a.back, %b.back, %kept)
  return %y
)")
                        .asks("a", {result(64)})
                        .asks("b", {result(64)})
                        .asks("y", {result(64)});
  const Program right = lower(test.graph, test.recipes).value();
  const auto verdict = [&](const std::function<void(Program&)>& spoil) {
    Program program = right;
    spoil(program);
    const Status status = check_program(test.graph, test.recipes, program);
    return status ? std::string("right") : status.error().message;
  };
  const auto index = [&](const char* name) { return test.graph.find_tensor(name).index(); };
  const auto at = [&](const char* name) { return right.offsets[index(name)].count; };
  EXPECT_EQ(verdict([](Program&) {}), "right");
  EXPECT_EQ(right.host_size, Bytes{128});
  EXPECT_EQ(verdict([&](Program& p) { p.offsets[index("a.host")] = Bytes{128}; }),
            "the program is wrong: %a.host at 128..192 @host is not inside the host slab of 128");
  EXPECT_EQ(verdict([&](Program& p) {
              p.offsets[index("b.host")] += Bytes{8};
              p.host_size += Bytes{64};
            }),
            fmt::format("the program is wrong: %b.host at {}..{} @host is not aligned to 64",
                        at("b.host") + 8, at("b.host") + 72));
  EXPECT_EQ(verdict([](Program& p) { p.host_size = Bytes{64}; }),
            "the program is wrong: bound 128 <= host slab 64 does not hold");
  EXPECT_EQ(verdict([&](Program& p) { p.offsets[index("b.host")] = p.offsets[index("a.host")]; }),
            fmt::format("the program is wrong: %a.host at {0}..{1} @host and %b.host at {0}..{1} "
                        "@host overlap at '%b.host: f32[16] @host = ebb::swap_out(%b)'",
                        at("a.host"), at("a.host") + 64));
  EXPECT_EQ(
      verdict([&](Program& p) { p.offsets[index("a.back")] = p.offsets[index("kept")]; }),
      fmt::format("the program is wrong: %kept at {0}..{1} and %a.back at {0}..{1} overlap at "
                  "'%a.back: f32[16] = ebb::swap_in(%a.host)'",
                  at("kept"), at("kept") + 64));
  EXPECT_EQ(verdict([&](Program& p) { p.offsets[index("kept")] = p.offsets[index("w")]; }),
            "the program is wrong: %kept at 0..64 is among the state, of 64");
  for (const InstructionKind kind : {InstructionKind::kKernel, InstructionKind::kArithmetic}) {
    EXPECT_EQ(verdict([&](Program& p) { p.instructions[1].kind = kind; }),
              "the program is wrong: 'a.host' is of the wrong kind");
  }
  EXPECT_EQ(verdict([](Program& p) { p.instructions[0].kind = InstructionKind::kCopy; }),
            "the program is wrong: 'a' is of the wrong kind");
  EXPECT_EQ(verdict([](Program& p) { p.instructions.erase(p.instructions.begin() + 1); }),
            "the program is wrong: 'a.host' has no instruction in its place");
  EXPECT_EQ(verdict([](Program& p) { p.instructions[1].serving_count = 1; }),
            "the program is wrong: 'a.host' makes 0 requests, and 1 are served");
}

TEST(CheckProgram, FindsCopiesThatAreNone) {
  // Not of graphs that lower would take.
  const auto verdict = [](const std::string& lines) {
    const Case test(lines + "  return\n");
    Program program;
    for (const NodeId node : test.graph.order()) {
      if (!test.graph.is_op(node)) continue;
      program.instructions.push_back({.kind = InstructionKind::kCopy, .node = node});
    }
    Bytes end;
    for (std::size_t i = 0; i < test.graph.tensor_count(); ++i) {
      program.offsets.push_back(end);
      end += Bytes{64};
    }
    program.arena_size = program.host_size = end;
    const Status status = check_program(test.graph, test.recipes, program);
    return status ? std::string("right") : status.error().message;
  };
  const std::string input = "  input %x: f32[8]\n";
  EXPECT_EQ(verdict(input + "  %a: f32[8] = ebb::snapshot(%x)\n"), "right");
  EXPECT_EQ(verdict(input + "  %a: f32[4] = ebb::snapshot(%x)\n"),
            "the program is wrong: 'a' copies %x to %a, of another size");
  EXPECT_EQ(verdict(input + "  %a: f32[8] @host = ebb::snapshot(%x)\n"),
            "the program is wrong: 'a' copies %x to %a, on the wrong side");
  EXPECT_EQ(verdict(input + "  %a: f32[8] = ebb::snapshot(%x, %x)\n"),
            "the program is wrong: 'a' is a copy, and not of one tensor");
  EXPECT_EQ(verdict(input + "  %a: f32[8] = ebb::snapshot(none)\n"),
            "the program is wrong: 'a' is a copy, and not of one tensor");
}

TEST(CheckProgram, AllowsTakingOverOnlyWhenItMay) {
  const auto verdict = [](const std::string& operation, bool reuse = true) {
    const Case test("  input %x: bool[64]\n  input %m: bool[64]\n  " + operation +
                    "\n  %y: bool[64] = my::op(%r)\n  return %y\n");
    Program program = lower(test.graph, test.recipes).value();
    const auto place = [&](const char* name) -> Bytes& {
      return program.offsets[test.graph.find_tensor(name).index()];
    };
    place("r") = place("x");
    place("y") = program.arena_size;
    program.arena_size += Bytes{64};
    program.reused_in_place = 1;
    return check_program(test.graph, test.recipes, program, {.reuse_in_place = reuse}).has_value();
  };
  EXPECT_TRUE(verdict("%r: bool[64] = aten::logical_and(%x, %m)"));
  EXPECT_TRUE(verdict("%r: bool[64] = aten::logical_and(%m, %x)"));
  EXPECT_TRUE(verdict("%r: bool[64] = aten::masked_fill.Scalar(%x, %m)"));
  EXPECT_FALSE(verdict("%r: bool[64] = aten::masked_fill.Scalar(%m, %x)"));
  EXPECT_FALSE(verdict("%r: bool[64] = aten::masked_fill.Scalar(%x, %x)"));
  EXPECT_FALSE(verdict("%r: bool[64] = my::op(%x)"));
  EXPECT_FALSE(verdict("%r: bool[64] = aten::logical_and(%x, %m) effect"));
  EXPECT_FALSE(verdict("%r: bool[64] = aten::logical_and(%x, %m)", false));
  EXPECT_FALSE(verdict("%r: bool[4,16] = aten::logical_and(%x, %m)"));
  EXPECT_FALSE(verdict("%r: i16[32] = aten::logical_and(%x, %m)"));
}

TEST(Elementwise, KnowsOperatorsByTheirFullNames) {
  EXPECT_EQ(may_take_over("aten::relu"), TakeOver::kAny);
  EXPECT_EQ(may_take_over("aten::add.Tensor"), TakeOver::kAny);
  EXPECT_EQ(may_take_over("aten::masked_fill.Scalar"), TakeOver::kFirst);
  for (const char* no : {"aten::add", "aten::add_.Tensor", "aten::relu.out", "relu", "", "zz",
                         "aten::_softmax", "aten::mm", "aten::cumsum", "aten::native_dropout"}) {
    EXPECT_EQ(may_take_over(no), TakeOver::kNever) << no;
  }
}

}  // namespace
}  // namespace ebb

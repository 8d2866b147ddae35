// Rewriting any graph in any way that is not refused keeps what it computes. The first line of the
// input chooses what is done, byte by byte; the rest is the graph.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/check.h"
#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"
#include "ebb/rewrite/codec.h"
#include "ebb/rewrite/lms_rewrite.h"
#include "ebb/rewrite/plan_file.h"
#include "ebb/rewrite/proof.h"
#include "ebb/rewrite/rewriter.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace ebb {
namespace {

class Choices {
 public:
  explicit Choices(std::string_view bytes) : bytes_(bytes) {}

  // From 0 to sides - 1; 0 when there are no more bytes.
  std::size_t below(std::size_t sides) {
    if (at_ == bytes_.size()) return 0;
    return static_cast<std::uint8_t>(bytes_[at_++]) % sides;
  }
  bool flip() { return below(2) == 1; }
  [[nodiscard]] bool is_empty() const { return at_ == bytes_.size(); }

  NodeId node(const Graph& graph) {
    return NodeId(static_cast<std::uint32_t>(below(graph.node_count())));
  }
  TensorId tensor(const Graph& graph) {
    return TensorId(static_cast<std::uint32_t>(below(graph.tensor_count())));
  }
  // One for which the node waits, through some others.
  NodeId node_before(const Graph& graph, NodeId node) {
    for (std::size_t steps = 1 + below(3); steps > 0; --steps) {
      std::vector<NodeId> before(graph.controls(node).begin(), graph.controls(node).end());
      for (const Operand& operand : graph.operands(node)) {
        if (operand.tensor.valid()) before.push_back(graph.producer(operand.tensor));
      }
      if (before.empty()) break;
      node = before[below(before.size())];
    }
    return node;
  }
  std::string codec() {
    const std::size_t chosen = below(codecs().size() + 3);
    return chosen < codecs().size() ? std::string(codecs()[chosen].name) : std::string();
  }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

// Names are the graph's own, mostly whole ones or what stands before their last '/'.
LmsOptions choose_options(Choices& choices, const Graph& graph) {
  const auto scope = [&] {
    const std::string name(graph.name(choices.node(graph)));
    return choices.flip() ? name : name.substr(0, name.rfind('/'));
  };
  const auto list = [&](auto&& one) {
    std::vector<std::string> all(choices.below(4) / 2);
    for (std::string& each : all) each = one();
    return all;
  };
  const auto type = [&] { return std::string(graph.op(choices.node(graph))); };
  LmsOptions options;
  options.optimizer_scopes = list(scope);
  if (choices.below(8) == 1) options.starting_scope = scope();
  options.starting_op_names = list([&] { return std::string(graph.name(choices.node(graph))); });
  if (choices.flip()) {
    options.excl_scopes = list(scope);
    options.excl_types = list(type);
    options.incl_scopes = list(scope);
    options.incl_types = list(type);
  }
  options.n_tensors = static_cast<std::int64_t>(choices.below(16)) - 1;
  options.lb = static_cast<std::int64_t>(choices.below(5));
  options.ub = choices.flip() ? 10000 : static_cast<std::int64_t>(choices.below(10));
  if (choices.flip()) options.ctrld_strategy = "direct_order";
  options.fuse_swapins = choices.flip();
  options.fuse_distance = choices.flip() ? 10000 : static_cast<std::int64_t>(choices.below(6));
  options.swap_branches = choices.flip();
  options.branch_threshold = static_cast<std::int64_t>(choices.below(4));
  options.whole_graph = choices.flip();
  options.alpha = static_cast<std::int64_t>(choices.below(4));
  options.min_bytes = Bytes{static_cast<std::int64_t>(choices.below(64))};
  options.codec = choices.codec();
  options.sync = static_cast<std::int64_t>(choices.below(4));
  if (choices.flip()) options.recompute_types = list(type);
  return options;
}

// Readers that are readers, and triggers that may be ones, mostly; the rules decide.
std::vector<ReaderGroup> choose_groups(Choices& choices, const Graph& graph, TensorId tensor) {
  std::vector<ReaderGroup> groups(1 + choices.below(2));
  for (const NodeId reader : graph.nodes()) {
    const auto operands = graph.operands(reader);
    const bool reads = std::any_of(operands.begin(), operands.end(), [&](const Operand& operand) {
      return operand.tensor.valid() && graph.storage(operand.tensor) == graph.storage(tensor);
    });
    if (!reads) continue;
    const std::size_t group = choices.below(groups.size() + 1);
    if (group < groups.size()) groups[group].readers.push_back(reader);
  }
  if (choices.below(16) == 1) groups[0].readers.push_back(choices.node(graph));
  std::erase_if(groups, [](const ReaderGroup& group) { return group.readers.empty(); });
  for (ReaderGroup& group : groups) {
    group.trigger =
        choices.below(8) == 1 ? choices.node(graph) : choices.node_before(graph, group.readers[0]);
  }
  return groups;
}

Decision choose_decision(Choices& choices, const Graph& graph) {
  const std::size_t kind = choices.below(5);
  if (kind == 4) return SplitDecision{choices.node(graph)};
  if (kind == 3) return MoveDecision{choices.node(graph), choices.node(graph)};
  if (kind == 0 || graph.tensor_count() == 0) {
    return DelayDecision{choices.node(graph), choices.node(graph)};
  }
  const TensorId tensor = choices.tensor(graph);
  auto groups = choose_groups(choices, graph, tensor);
  if (kind == 1) return RecomputeDecision{tensor, std::move(groups)};
  SwapDecision swap{tensor, std::move(groups), choices.codec()};
  if (!swap.codec.empty() && choices.flip()) swap.codec_side = CodecSide::kHost;
  return swap;
}

void rewrite_as_chosen(const Graph& original, Rewriter& rewriter, Choices& choices) {
  const Graph& graph = rewriter.graph();
  if (choices.flip()) {
    const auto plan = apply_lms(original, rewriter, choose_options(choices, original));
    if (!plan) {
      EBB_CHECK(!plan.error().message.empty(), "an error without words");
      return;
    }
    for (const LmsRefused& refused : plan->refused) {
      EBB_CHECK(refused.reason != LmsRefusal::kByRule ||
                    refused.rule_says.find("would add up to more") != std::string::npos,
                "the driver chose what does not apply: {}", refused.rule_says);
    }
    EBB_CHECK(plan->delays_refused == 0, "the driver chose delays that do not apply");
  }
  constexpr int kMostDecisions = 24;
  for (int i = 0; i < kMostDecisions && !choices.is_empty(); ++i) {
    const Decision decision = choose_decision(choices, graph);
    const Status applies = rewriter.check(decision);
    const Status done = rewriter.apply(decision);
    EBB_CHECK(applies.has_value() == done.has_value(), "check and apply differ");
    EBB_CHECK(done || done.error().render("x").find('\n') == std::string::npos,
              "more than one line");
  }
}

void expect_same_computation(const Graph& original, const Graph& rewritten) {
  const auto proof = prove_same(original, rewritten, {.allow_lossy = true});
  EBB_CHECK(proof.has_value(), "not the same computation: {}", proof.error().message);
}

void rewrite_and_prove(std::string_view choices_text, std::string_view text) {
  const auto original = parse_valid(text);
  if (!original || original->node_count() == 0) return;
  Choices choices(choices_text);
  Graph rewritten = *original;
  Rewriter rewriter(rewritten, {.verify_each = true});
  rewrite_as_chosen(*original, rewriter, choices);
  rewriter.settle();
  expect_same_computation(*original, rewritten);

  const std::string canonical = print(rewritten);
  const auto read = parse_valid(canonical);
  EBB_CHECK(read.has_value(), "canonical text is refused: {}", read.error().message);
  EBB_CHECK(print(*read) == canonical, "printing is not stable");
  expect_same_computation(*original, *read);

  const auto plan = parse_plan(to_text(plan_of(*original, rewritten, rewriter.journal())));
  EBB_CHECK(plan.has_value(), "the plan is refused: {}", plan.error().message);
  const auto again = apply_plan(*original, *plan, {.verify_each = false});
  EBB_CHECK(again.has_value(), "the plan does not apply: {}", again.error().message);
  EBB_CHECK(print(again->graph) == canonical, "the plan gives another graph");
}

}  // namespace
}  // namespace ebb

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\n'), size);
  ebb::rewrite_and_prove(input.substr(0, end), input.substr(std::min(end + 1, size)));
  return 0;
}

#include "tests/meaning/any_rewrite.h"

#include <algorithm>
#include <random>

#include <fmt/format.h>

#include "ebb/base/check.h"
#include "ebb/graph/convolution_backward.h"
#include "ebb/graph/ebb_ops.h"
#include "ebb/rewrite/lms_rewrite.h"
#include "ebb/rewrite/rewriter.h"
#include "tests/meaning/random_graph.h"

namespace ebb {
namespace {

class Deciding {
 public:
  Deciding(Rewriter& rewriter, std::mt19937_64& engine) : rewriter_(rewriter), engine_(engine) {}

  // Mostly one that has a chance; the rules decide.
  Decision any() {
    if (one_in(8)) return DelayDecision{any_node(), any_node()};
    if (one_in(4)) return MoveDecision{any_added(), any_node()};
    if (one_in(12)) return SplitDecision{any_call_to_split()};
    TensorId tensor;
    std::vector<ReaderGroup> groups;
    for (int tries = 0; tries < 8 && groups.empty(); ++tries) {
      tensor = any_tensor();
      groups = readers_of(tensor);
    }
    if (!groups.empty() && one_in(40)) pick(groups).readers.push_back(any_node());
    for (ReaderGroup& group : groups) group.trigger = trigger_for(group);
    if (one_in(2)) return RecomputeDecision{tensor, groups};
    const auto side = one_in(2) ? CodecSide::kDevice : CodecSide::kHost;
    return SwapDecision{tensor, groups, any_codec(tensor), side};
  }

 private:
  [[nodiscard]] const Graph& graph() const { return rewriter_.graph(); }
  std::size_t below(std::size_t sides) { return engine_() % sides; }
  bool one_in(std::size_t sides) { return below(sides) == 0; }
  template <class T>
  T& pick(std::vector<T>& items) {
    return items[below(items.size())];
  }
  std::vector<ReaderGroup> readers_of(TensorId tensor) {
    std::vector<ReaderGroup> groups(1 + below(3));
    for (const NodeId reader : graph().nodes()) {
      if (reads(reader, tensor) && !one_in(3)) pick(groups).readers.push_back(reader);
    }
    if (!one_in(40)) {
      std::erase_if(groups, [](const ReaderGroup& group) { return group.readers.empty(); });
    }
    return groups;
  }
  NodeId any_node() { return NodeId(static_cast<std::uint32_t>(below(graph().node_count()))); }

  // If there is one.
  NodeId any_added() {
    const auto is_added = [&](NodeId node) {
      return is_copy(graph().op(node)) || graph().clone_of(node).valid();
    };
    NodeId node = any_node();
    for (int tries = 0; tries < 20 && !is_added(node); ++tries) node = any_node();
    return node;
  }

  // If there is one.
  NodeId any_call_to_split() {
    NodeId node = any_node();
    for (int tries = 0; tries < 40 && graph().op(node) != kConvolutionBackward; ++tries) {
      node = any_node();
    }
    return node;
  }

  // Mostly one that somebody reads and that is not overwritten.
  TensorId any_tensor() {
    TensorId tensor(static_cast<std::uint32_t>(below(graph().tensor_count())));
    for (int tries = 0; tries < 20 && !one_in(20); ++tries) {
      const auto operands = graph().operands(any_node());
      if (operands.empty()) continue;
      const TensorId read = operands[below(operands.size())].tensor;
      if (!read.valid()) continue;
      tensor = read;
      const NodeKind origin = graph().origin(graph().storage(read));
      const std::string_view op = graph().op(graph().producer(read));
      if (origin == NodeKind::kOp && op != kSwapIn && op != kDecode &&
          !rewriter_.updater(read).valid() &&
          graph().residence(graph().storage(read)) == Residence::kDevice) {
        break;
      }
    }
    return tensor;
  }

  // Not through views: those are no readers, and a decision that names one is refused.
  bool reads(NodeId node, TensorId tensor) {
    const StorageId storage = graph().storage(tensor);
    const auto operands = graph().operands(node);
    const auto results = graph().results(node);
    const bool leaves = graph().op(node) == kSwapOut || graph().op(node) == kEncode;
    if (leaves && !one_in(20)) return false;
    const bool is_view = std::any_of(results.begin(), results.end(), [&](TensorId result) {
      return graph().storage(result) == storage;
    });
    if (is_view && !one_in(20)) return false;
    return std::any_of(operands.begin(), operands.end(), [&](const Operand& operand) {
      return operand.tensor.valid() && graph().storage(operand.tensor) == storage;
    });
  }

  NodeId trigger_for(const ReaderGroup& group) {
    NodeId trigger = any_node();
    for (int tries = 0; tries < 12 && !one_in(20); ++tries, trigger = any_node()) {
      const bool all_wait =
          std::all_of(group.readers.begin(), group.readers.end(),
                      [&](NodeId reader) { return rewriter_.waits(reader, trigger); });
      if (all_wait && graph().is_op(trigger)) break;
    }
    return trigger;
  }

  std::string any_codec(TensorId tensor) {
    if (one_in(50)) return "zip";
    if (one_in(10)) return "nonpositive";
    const bool fits = graph().type(tensor).dtype == DType::kBool;
    return (fits && one_in(2)) || one_in(30) ? "bits" : "";
  }

  Rewriter& rewriter_;
  std::mt19937_64& engine_;
};

LmsOptions any_options(const Graph& graph, std::mt19937_64& engine) {
  const auto below = [&](std::size_t sides) { return engine() % sides; };
  const auto number = [&](std::size_t sides) { return static_cast<std::int64_t>(below(sides)); };
  const auto some_op = [&] {
    const auto order = graph.order();
    NodeId node = order[below(order.size())];
    while (!graph.is_op(node)) node = order[below(order.size())];
    return node;
  };
  LmsOptions options;
  options.lb = 1 + number(3);
  options.ub = below(3) == 0 ? options.lb + number(4) : 10000;
  options.ctrld_strategy = below(2) == 0 ? "chain_rule" : "direct_order";
  options.fuse_swapins = below(2) == 0;
  options.fuse_distance = below(2) == 0 ? number(6) : 10000;
  options.swap_branches = below(2) == 0;
  options.branch_threshold = number(4);
  options.whole_graph = below(2) == 0;
  options.alpha = number(6);
  options.n_tensors = below(4) == 0 ? number(4) : -1;
  options.min_bytes = Bytes{below(4) == 0 ? number(64) : 0};
  options.codec = below(3) == 0 ? "bits" : "";
  options.sync = below(2) == 0 ? number(4) : 0;
  for (std::size_t types = below(3) == 0 ? 0 : 1 + below(5); types > 0; --types) {
    options.recompute_types.emplace_back(graph.op(some_op()));
  }
  if (below(4) == 0) options.excl_types = {std::string(graph.op(some_op()))};
  if (below(6) == 0) options.incl_types = {std::string(graph.op(some_op()))};
  if (below(8) == 0) options.starting_op_names = {std::string(graph.name(some_op()))};
  const bool has_backward = std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](NodeId n) {
    return graph.is_op(n) && graph.name(n).starts_with("gradients/");
  });
  if (has_backward) {
    if (below(3) == 0) options.optimizer_scopes = {"gradients"};
    if (below(8) == 0) options.excl_scopes = {"gradients"};
    if (below(8) == 0) options.incl_scopes = {"gradients"};
    if (below(8) == 0) options.starting_scope = "gradients";
  }
  return options;
}

class Maker {
 public:
  Maker(std::uint64_t seed, AnyRewrite& out) : engine_(seed), out_(out) {
    const int nodes = static_cast<int>(12 + engine_() % 28);
    const int layers = engine_() % 2 == 0 ? static_cast<int>(engine_() % 12) : 0;
    out_.original = with_shuffled_lines(
        random_graph(seed, {.nodes = nodes, .for_rewriting = true, .layers = layers}), seed);
  }

  void run() {
    out_.halfway = out_.original;
    out_.by_driver = engine_() % 3 == 0;
    Rewriter first(out_.halfway, {.verify_each = false});
    if (out_.by_driver) {
      take_from_driver(first);
    } else {
      decide(first);
    }
    first.settle();
    out_.rewritten = out_.halfway;
    Rewriter second(out_.rewritten, {.verify_each = false});
    if (engine_() % 2 == 0) decide(second);
    second.settle();
  }

 private:
  void apply(Rewriter& rewriter, const Decision& decision) {
    const std::string text = to_text(rewriter.graph(), decision);
    const Status checked = rewriter.check(decision);
    const Status done = rewriter.apply(decision);
    EBB_CHECK(checked.has_value() == done.has_value(), "check and apply disagree: {}", text);
    if (done) {
      out_.decisions += text + "\n";
      ++out_.applied[decision.index()];
    } else {
      out_.refused.push_back(done.error().message);
    }
  }

  void decide(Rewriter& rewriter) {
    Deciding deciding(rewriter, engine_);
    for (int i = 0; i < 16; ++i) apply(rewriter, deciding.any());
  }

  void take_from_driver(Rewriter& rewriter) {
    const Graph& graph = out_.original;
    const auto plan = apply_lms(graph, rewriter, any_options(graph, engine_));
    EBB_CHECK(plan.has_value(), "{}", plan.error().message);
    for (const LmsRefused& refused : plan->refused) {
      out_.left.push_back(refused.reason);
      EBB_CHECK(refused.reason != LmsRefusal::kByRule, "the driver chose what does not apply: {}",
                refused.rule_says);
    }
    for (const JournalEntry& entry : rewriter.journal()) {
      out_.decisions += to_text(rewriter.graph(), entry.decision) + "\n";
      ++out_.applied[entry.decision.index()];
    }
    out_.recomputed_by_driver = plan->recomputes.size();
    out_.delayed_by_driver = plan->delays.size();
    EBB_CHECK(plan->delays_refused == 0, "the driver wants {} delays that do not apply",
              plan->delays_refused);
  }

  std::mt19937_64 engine_;
  AnyRewrite& out_;
};

}  // namespace

void make_any_rewrite(std::uint64_t seed, AnyRewrite& out) { Maker(seed, out).run(); }

}  // namespace ebb

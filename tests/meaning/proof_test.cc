// The proof (ebb/rewrite/proof.h) on random graphs: what it must accept, what it must refuse, and
// that what it accepts computes the same.
#include "ebb/rewrite/proof.h"

#include <algorithm>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ebb/graph/dependence.h"
#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/edit.h"
#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"
#include "ebb/graph/verify.h"
#include "tests/meaning/interpreter.h"
#include "tests/meaning/random_graph.h"

namespace ebb {
namespace {

std::uint64_t many() { return how_many(10'000); }

std::string text_of(const Result<Proof>& proof) {
  return proof ? to_text(*proof) : proof.error().render("");
}

// By node: whom it waits for, directly or through others.
std::vector<std::vector<bool>> closure(const Graph& graph) {
  const Dependence dependence(graph);
  std::vector<std::vector<bool>> waits(graph.node_count(), std::vector<bool>(graph.node_count()));
  for (const NodeId node : graph.order()) {
    for (const auto& edge : dependence.before(node)) {
      waits[node.index()][edge.node.index()] = true;
      for (std::size_t i = 0; i < graph.node_count(); ++i) {
        if (waits[edge.node.index()][i]) waits[node.index()][i] = true;
      }
    }
  }
  return waits;
}

// The same lines in a random order that runs and in which the world sees the same.
Graph with_pure_lines_moved(Graph graph, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  const Dependence dependence(graph);
  std::vector<NodeId> seen;  // what the world sees, in order
  for (const NodeId node : graph.order()) {
    if (graph.effect(node) != Effect::kPure) seen.push_back(node);
  }
  std::vector<bool> done(graph.node_count());
  std::vector<NodeId> order;
  while (order.size() < graph.node_count()) {
    std::vector<NodeId> ready;
    for (const NodeId node : graph.nodes()) {
      if (done[node.index()]) continue;
      if (graph.effect(node) != Effect::kPure && node != seen.front()) continue;
      const auto before = dependence.before(node);
      if (std::all_of(before.begin(), before.end(),
                      [&](const auto& edge) { return done[edge.node.index()]; })) {
        ready.push_back(node);
      }
    }
    const NodeId next = ready[engine() % ready.size()];
    if (graph.effect(next) != Effect::kPure) seen.erase(seen.begin());
    done[next.index()] = true;
    order.push_back(next);
  }
  GraphEdit(graph).set_order(std::move(order));
  return graph;
}

TEST(ProofOfRandomGraphs, EachIsTheSameAsItself) {
  for (std::uint64_t seed = 0, end = many(); seed < end; ++seed) {
    const Graph graph = random_graph(seed);
    const auto proof = prove_same(graph, graph);
    ASSERT_TRUE(proof) << "seed " << seed << ": " << text_of(proof) << "\n" << print(graph);
    ASSERT_EQ(*proof, Proof{.nodes = graph.node_count()}) << "seed " << seed;
  }
}

TEST(ProofOfRandomGraphs, EachIsTheSameInAnotherOrderOfLinesReadFromText) {
  for (std::uint64_t seed = 0, end = many(); seed < end; ++seed) {
    const Graph graph = random_graph(seed);
    const std::string text = print(with_pure_lines_moved(graph, seed));
    const auto moved = parse_valid(text);
    ASSERT_TRUE(moved) << "seed " << seed;
    const auto proof = prove_same(graph, *moved);
    ASSERT_TRUE(proof) << "seed " << seed << ": " << text_of(proof) << "\n" << print(graph) << text;
    ASSERT_EQ(*proof, Proof{.nodes = graph.node_count()}) << "seed " << seed;
  }
}

// Operations that the world sees change places.
TEST(ProofOfRandomGraphs, NoneIsTheSameWithItsEffectsInAnotherOrder) {
  std::uint64_t tried = 0;
  for (std::uint64_t seed = 0, end = many(); seed < end; ++seed) {
    const Graph graph = random_graph(seed);
    const Graph shuffled = with_shuffled_lines(graph, seed);
    const auto seen = [](const Graph& of) {
      std::vector<NodeId> nodes(of.order().begin(), of.order().end());
      std::erase_if(nodes, [&](NodeId node) { return of.effect(node) == Effect::kPure; });
      return nodes;
    };
    const bool same = seen(graph) == seen(shuffled);
    ASSERT_EQ(prove_same(graph, shuffled).has_value(), same) << "seed " << seed;
    tried += same ? 0 : 1;
  }
  EXPECT_GT(tried, many() / 10);
}

TEST(ProofOfRandomGraphs, NoneIsTheSameWithOneOperandReplacedOrDropped) {
  std::uint64_t tried = 0;
  std::uint64_t told_by_running = 0;
  for (std::uint64_t seed = 0, end = many(); seed < end; ++seed) {
    const Graph graph = random_graph(seed);
    std::mt19937_64 engine(seed);
    const NodeId node(static_cast<std::uint32_t>(engine() % graph.node_count()));
    const auto operands = graph.operands(node);
    if (operands.empty()) continue;
    const std::size_t index = engine() % operands.size();
    const bool drop = engine() % 4 == 0;
    const TensorId other =
        drop ? TensorId() : TensorId(static_cast<std::uint32_t>(engine() % graph.tensor_count()));
    if (other == operands[index].tensor ||
        operands[index].position == Operand::Position::kEmptyList) {
      continue;
    }
    Graph mutant = graph;
    GraphEdit(mutant).set_operand(node, index, other);
    GraphEdit(mutant).renumber_versions();
    ++tried;
    const bool is_valid = verify(mutant).has_value();
    const bool is_same = is_valid && run(mutant) == run(graph);
    // Random graphs have copies and clones, and one of those serves for another.
    ASSERT_TRUE(is_same || !prove_same(graph, mutant)) << "seed " << seed << "\n"
                                                       << print(graph) << print(mutant);
    if (is_valid && !is_same) ++told_by_running;
  }
  EXPECT_GT(tried, many() / 4);
  EXPECT_GT(told_by_running, many() / 25) << "the interpreter sees most of these too";
}

TEST(ProofOfRandomGraphs, NoneIsTheSameWithOneFactChanged) {
  for (std::uint64_t seed = 0, end = many(); seed < end; ++seed) {
    const Graph graph = random_graph(seed);
    std::mt19937_64 engine(seed);
    const NodeId node(static_cast<std::uint32_t>(engine() % graph.node_count()));
    Graph mutant = graph;
    GraphEdit edit(mutant);
    switch (engine() % 6) {
      case 0: {
        const Value one = std::int64_t{1};
        edit.add_attribute(node, edit.intern("mutant"), false, std::span(&one, 1));
        break;
      }
      case 1:
        edit.set_effect(node,
                        graph.effect(node) == Effect::kRandom ? Effect::kPure : Effect::kRandom);
        break;
      case 2:
        edit.set_device(node, "mutant:0");
        break;
      case 3:
        edit.set_workspace(node, graph.workspace(node) + Bytes{1});
        break;
      case 4: {
        if (graph.results(node).empty()) continue;
        TensorType type = graph.type(graph.results(node)[0]);
        type.dtype = DType::kF64;
        edit.set_type(graph.results(node)[0], edit.intern(type));
        break;
      }
      default: {
        std::vector<TensorId> outputs(graph.outputs().begin(), graph.outputs().end());
        if (graph.tensor_count() == 0) continue;
        outputs.emplace_back(0);
        edit.set_outputs(outputs);
        break;
      }
    }
    ASSERT_FALSE(prove_same(graph, mutant)) << "seed " << seed << "\n"
                                            << print(graph) << print(mutant);
  }
}

TEST(ProofOfRandomGraphs, AControlEdgeMayGoExactlyWhenOthersImplyIt) {
  std::uint64_t implied = 0;
  std::uint64_t needed = 0;
  for (std::uint64_t seed = 0, end = many(); seed < end; ++seed) {
    const Graph graph = random_graph(seed);
    for (const NodeId node : graph.nodes()) {
      if (graph.controls(node).empty()) continue;
      const NodeId control = graph.controls(node)[0];
      Graph mutant = graph;
      GraphEdit(mutant).set_controls(node, graph.controls(node).subspan(1));
      const bool waits = closure(mutant)[node.index()][control.index()];
      (waits ? implied : needed) += 1;
      const auto proof = prove_same(graph, mutant);
      ASSERT_EQ(proof.has_value(), waits) << "seed " << seed << ": " << text_of(proof) << "\n"
                                          << print(graph) << print(mutant);
      break;
    }
  }
  EXPECT_GT(implied, many() / 200);
  EXPECT_GT(needed, many() / 20);
}

// A rewriter without cleverness: copies and clones stand right after what they repeat.
class Additions {
 public:
  Additions(Graph graph, std::uint64_t seed) : graph_(std::move(graph)), engine_(seed) {}

  // False when the dice chose something that cannot be.
  bool add_one() {
    const NodeId reader(below(graph_.node_count()));
    const auto operands = graph_.operands(reader);
    if (operands.empty()) return false;
    const std::size_t index = below(operands.size());
    const Operand operand = operands[index];
    const std::string_view op = graph_.op(reader);
    if (!operand.tensor.valid() || operand.access == Access::kUpdate || op == kSwapIn) return false;
    const StorageId storage = graph_.storage(operand.tensor);
    for (const TensorId result : graph_.results(reader)) {
      if (graph_.storage(result) == storage) return false;  // a view stays where it is
    }
    const TensorId held = below(2) == 0 ? add_copy(operand.tensor) : add_clone(operand.tensor);
    if (!held.valid()) return false;
    GraphEdit(graph_).set_operand(reader, index, held);
    GraphEdit(graph_).renumber_versions();
    return true;
  }

  const Graph& graph() const { return graph_; }

 private:
  std::uint32_t below(std::size_t sides) { return static_cast<std::uint32_t>(engine_() % sides); }

  NodeId add_after(NodeId node, std::string_view op) {
    const NodeId added = GraphEdit(graph_).add_node(NodeKind::kOp, op);
    std::vector<NodeId> order(graph_.order().begin(), graph_.order().end() - 1);
    order.insert(std::find(order.begin(), order.end(), node) + 1, added);
    GraphEdit(graph_).set_order(std::move(order));
    GraphEdit(graph_).set_scope(added, graph_.scope(node));
    return added;
  }
  SymbolId new_name() { return GraphEdit(graph_).intern(fmt::format("added {}", count_++)); }

  TensorId add_copy_by(std::string_view op, TensorId source, const TensorType& type) {
    const NodeId node = add_after(graph_.producer(source), op);
    const Operand operand{.tensor = source};
    GraphEdit edit(graph_);
    edit.set_operands(node, std::span(&operand, 1));
    return edit.add_result(node, new_name(), edit.intern(type));
  }

  TensorId add_copy(TensorId source) {
    const TensorType type = graph_.type(source);
    if (type.residence == Residence::kHost || below(2) == 0) {
      return add_copy_by(kSnapshot, source, type);
    }
    return add_copy_by(kSwapIn, add_copy_by(kSwapOut, source, on_host(type)), type);
  }

  TensorId add_clone(TensorId source) {
    const NodeId original = graph_.producer(source);
    if (!graph_.is_op(original) || graph_.clone_of(original).valid() ||
        graph_.effect(original) != Effect::kPure || graph_.updates_something(original)) {
      return {};
    }
    const NodeId node = add_after(original, std::string(graph_.op(original)));
    GraphEdit edit(graph_);
    const std::vector<Operand> operands(graph_.operands(original).begin(),
                                        graph_.operands(original).end());
    edit.set_operands(node, operands);
    const std::vector<Attribute> attributes(graph_.attributes(original).begin(),
                                            graph_.attributes(original).end());
    for (const Attribute& attribute : attributes) {
      const std::vector<Value> items(graph_.items(attribute).begin(),
                                     graph_.items(attribute).end());
      edit.add_attribute(node, attribute.key, attribute.is_list, items);
    }
    edit.set_device(node, std::string(graph_.device(original)));
    edit.set_workspace(node, graph_.workspace(original));
    if (const auto takes = graph_.takes(original)) edit.set_takes(node, *takes);
    const std::vector<NodeId> controls(graph_.controls(original).begin(),
                                       graph_.controls(original).end());
    edit.set_controls(node, controls);
    edit.set_clone_of(node, original);
    TensorId wanted;
    for (const TensorId result : graph_.results(original)) {
      const TensorId root = graph_.root(graph_.storage(result));
      const TensorId again = root == result
                                 ? edit.add_result(node, new_name(), graph_.type_id(result))
                                 : edit.add_shared_result(node, new_name(), graph_.type_id(result),
                                                          root, graph_.offset(result));
      if (result == source) wanted = again;
    }
    return wanted;
  }

  Graph graph_;
  std::mt19937_64 engine_;
  int count_ = 0;
};

// Whether everything the world sees waits for everything it waited for.
bool keeps_effects_ordered(const Graph& original, const Graph& rewritten) {
  const auto before = closure(original);
  const auto after = closure(rewritten);  // ids of the original mean the same in it
  for (const NodeId first : original.nodes()) {
    for (const NodeId second : original.nodes()) {
      if (original.effect(first) == Effect::kPure || original.effect(second) == Effect::kPure) {
        continue;
      }
      if (before[second.index()][first.index()] && !after[second.index()][first.index()]) {
        return false;
      }
    }
  }
  return true;
}

TEST(ProofOfRandomGraphs, EachIsTheSameWithCopiesAndClonesAdded) {
  std::uint64_t accepted = 0;
  for (std::uint64_t seed = 0, end = many(); seed < end; ++seed) {
    const Graph graph = random_graph(seed);
    Additions additions(graph, seed);
    int added = 0;
    for (int i = 0; i < 12; ++i) added += additions.add_one() ? 1 : 0;
    if (added == 0) continue;
    const Graph& rewritten = additions.graph();
    const auto valid = verify(rewritten);
    ASSERT_TRUE(valid) << "seed " << seed << ": " << valid.error().render("") << "\n"
                       << print(rewritten);
    const auto proof = prove_same(graph, rewritten);
    const auto context = [&] {
      return fmt::format("seed {}: {}\n{}{}", seed, text_of(proof), print(graph), print(rewritten));
    };
    if (proof) {
      ++accepted;
      ASSERT_TRUE(keeps_effects_ordered(graph, rewritten)) << context();
      // What each operation of the original found, with the lines as they are and moved.
      const std::vector<std::uint64_t> found = run(graph);
      for (const Graph& each : {rewritten, with_shuffled_lines(rewritten, seed)}) {
        std::vector<std::uint64_t> now = run(each);
        now.resize(found.size());
        ASSERT_EQ(now, found) << context();
      }
    } else {
      // A reader of a copy need not run before the update any more. The proof asks for an edge
      // where effects might follow from that, which is more than it needs to.
      ASSERT_EQ(proof.error().code, "S10") << context();
      ASSERT_NE(proof.error().message.find("reads a copy of"), std::string::npos) << context();
    }
    const auto of_text = parse_valid(print(rewritten));
    ASSERT_TRUE(of_text) << "seed " << seed;
    ASSERT_EQ(text_of(prove_same(graph, *of_text)), text_of(proof)) << "seed " << seed;
  }
  EXPECT_GT(accepted, many() * 3 / 4);
}

}  // namespace
}  // namespace ebb

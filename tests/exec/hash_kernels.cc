#include "tests/exec/hash_kernels.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <stdexcept>
#include <vector>

#include "ebb/base/check.h"
#include "ebb/base/hash_index.h"
#include "ebb/exec/allocation.h"
#include "ebb/graph/signature.h"
#include "tests/exec/hash_op.h"

namespace ebb {
namespace {

// What the operation asks for; the same for every node of a signature.
Recipe invent_recipe(const Graph& graph, NodeId node) {
  std::mt19937_64 engine(hash_bytes(signature(graph, node)));
  const auto below = [&](std::size_t sides) { return engine() % sides; };
  const bool misbehaves = graph.op(node).starts_with("test::");  // simply, so that tests can count
  Recipe recipe;
  auto& requests = recipe.requests;
  std::int32_t index = 0;
  for (const TensorId result : graph.results(node)) {
    const Bytes size{static_cast<std::int64_t>(byte_count(graph, result))};
    const bool is_new = graph.root(graph.storage(result)) == result;
    // Now and then the result comes in memory of its own, and is copied.
    if (is_new && size.count > 0 && (misbehaves || below(8) != 0)) {
      const std::size_t more = !misbehaves && below(8) == 0 ? below(100) : 0;
      requests.push_back({.size = size + Bytes{static_cast<std::int64_t>(more)}, .result = index});
    }
    ++index;
  }
  for (std::size_t i = misbehaves ? 0 : below(4); i > 0; --i) {
    const Bytes size{1 + static_cast<std::int64_t>(below(300))};
    requests.push_back(
        {.size = size, .result = below(8) == 0 ? Request::kKept : Request::kTemporary});
  }
  for (std::size_t i = requests.size(); i > 1; --i) {
    std::swap(requests[i - 1], requests[below(i)]);
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].freed_after = static_cast<std::uint32_t>(i + 1 + below(requests.size() - i));
  }
  return recipe;
}

// What one call of an operation was given, and what it then does. A value: it may be run later than
// the operation is called the next time, and more than once.
class HashCall {
 public:
  HashCall(const Graph& graph, NodeId node, std::span<std::byte* const> places,
           std::span<const Request> requests)
      : graph_(graph),
        node_(node),
        places_(places.begin(), places.end()),
        requests_(requests.begin(), requests.end()),
        results_(graph.results(node).size()) {}

  // The next request, as the source served it, or in memory of its own.
  void ask(std::size_t size, std::size_t more = 0) {
    exec::AllocationSource* source = exec::current_source();
    std::byte* data = source == nullptr ? nullptr : source->allocate(size + more);
    is_own_.push_back(data == nullptr);
    if (data == nullptr) {
      own_.push_back(std::make_shared<std::vector<std::byte>>(size + more));
      data = own_.back()->data();
    }
    const std::size_t i = memory_.size();
    if (i < requests_.size() && requests_[i].result >= 0) {
      results_[static_cast<std::size_t>(requests_[i].result)] = data;
    }
    memory_.emplace_back(data, size);
  }

  void run(exec::Scalars& scalars) const {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      give_back(i);
      // It may find its operand where its result goes.
      if (requests_[i].result >= 0 && is_hash_elementwise(graph_, node_)) continue;
      std::memset(memory_[i].data(), mark(i), memory_[i].size());
    }
    compute(scalars);
    give_back(requests_.size());
  }

  void spoil_updates() const {
    for (const Operand& operand : graph_.operands(node_)) {
      if (operand.access != Access::kUpdate) continue;
      std::memset(place(operand.tensor), 0xEE, byte_count(graph_, operand.tensor) / 2);
    }
  }

  // What run reads and writes of memory that is not its own.
  [[nodiscard]] std::vector<HashTouch> touches() const {
    std::vector<HashTouch> touches;
    const auto add = [&](TensorId tensor, bool writes) {
      const std::size_t size = byte_count(graph_, tensor);
      if (size > 0) touches.push_back({{place(tensor), size}, writes});
    };
    for (const Operand& operand : graph_.operands(node_)) {
      if (operand.tensor.valid()) add(operand.tensor, operand.access == Access::kUpdate);
    }
    for (const TensorId result : graph_.results(node_)) {
      if (graph_.root(graph_.storage(result)) == result) add(result, true);
    }
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if (!is_own_[i]) touches.push_back({memory_[i], true});
    }
    return touches;
  }

 private:
  [[nodiscard]] std::byte* place(TensorId tensor) const { return places_[tensor.index()]; }

  [[nodiscard]] static int mark(std::size_t request) {
    return static_cast<int>(0xA5U ^ (request & 0xFFU));
  }

  // What is freed when `count` requests have been made must be as it was left.
  void give_back(std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) {
      if (requests_[i].result != Request::kTemporary || requests_[i].freed_after != count) continue;
      const bool intact = std::all_of(memory_[i].begin(), memory_[i].end(), [&](std::byte byte) {
        return byte == static_cast<std::byte>(mark(i));
      });
      EBB_CHECK(intact, "somebody wrote into temporary {} of '{}'", i + 1, graph_.name(node_));
    }
  }

  void compute(exec::Scalars& scalars) const {
    const auto results = graph_.results(node_);
    std::vector<std::vector<std::byte>> copied(results.size());
    const auto result_place = [&](TensorId result) {
      if (graph_.root(graph_.storage(result)) != result) return place(result);  // updated
      const std::size_t i = result.index() - results[0].index();
      if (results_[i] != nullptr) return results_[i];
      copied[i].resize(byte_count(graph_, result));
      return copied[i].data();
    };
    run_hash_op(
        graph_, node_, [this](TensorId tensor) { return place(tensor); }, result_place, scalars);
    for (std::uint32_t i = 0; i < results.size(); ++i) {
      if (!copied[i].empty()) std::memcpy(place(results[i]), copied[i].data(), copied[i].size());
    }
  }

  const Graph& graph_;
  NodeId node_;
  std::vector<std::byte*> places_;
  std::vector<Request> requests_;
  std::vector<std::span<std::byte>> memory_;  // by request
  std::vector<bool> is_own_;                  // by request
  std::vector<std::byte*> results_;           // where they are made; null: in memory of their own
  std::vector<std::shared_ptr<std::vector<std::byte>>> own_;
};

class HashKernel final : public exec::Kernel {
 public:
  HashKernel(const Graph& graph, NodeId node, exec::Places places, const HashLauncher& launch)
      : graph_(graph),
        node_(node),
        places_(places.begin(), places.end()),
        requests_(invent_recipe(graph, node).requests),
        launch_(launch) {}

  Status run(exec::Scalars& scalars) override {
    ++runs_;
    const bool misbehaves = is_told_to(scalars);
    auto call = std::make_shared<HashCall>(graph_, node_, places_, requests_);
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      const bool greedy = misbehaves && op() == "test::greedy" && i + 1 == requests_.size();
      call->ask(asked(i), greedy ? 1 : 0);
    }
    if (misbehaves && op() == "test::again") call->ask(16);
    if (misbehaves && op() == "test::throw") throw std::runtime_error("the kernel blew up");
    if (misbehaves && op() == "test::bug") EBB_CHECK(false, "the kernel has a bug");
    if (misbehaves && op() == "test::fail") {
      do_work(std::move(call), scalars,
              [](const HashCall& of, exec::Scalars& /*scalars*/) { of.spoil_updates(); });
      return fail(ErrorKind::kInfeasible, "the kernel does not feel well");
    }
    do_work(std::move(call), scalars,
            [](const HashCall& of, exec::Scalars& given) { of.run(given); });
    return {};
  }

 private:
  [[nodiscard]] std::string_view op() const { return graph_.op(node_); }

  [[nodiscard]] bool is_told_to(const exec::Scalars& scalars) const {
    const Attribute* when = graph_.find_attribute(node_, "when");
    if (when == nullptr || !op().starts_with("test::")) return false;
    return std::get<double>(scalars[std::get<ScalarId>(graph_.items(*when)[0])]) != 0;
  }

  // In every other step a little less than was measured.
  [[nodiscard]] std::size_t asked(std::size_t request) const {
    const auto size = static_cast<std::size_t>(requests_[request].size.count);
    const bool less = requests_[request].result < 0 && size > 1 && runs_ % 2 == 0;
    return less ? size - 1 : size;
  }

  template <class Work>
  void do_work(std::shared_ptr<const HashCall> call, exec::Scalars& scalars, Work work) {
    if (!launch_) {
      work(*call, scalars);
      return;
    }
    HashWork launched{.graph = graph_, .node = node_, .touches = call->touches(), .run = {}};
    launched.run = [call = std::move(call), work](exec::Scalars& given) { work(*call, given); };
    launch_(std::move(launched), scalars);
  }

  const Graph& graph_;
  NodeId node_;
  std::vector<std::byte*> places_;
  std::vector<Request> requests_;
  const HashLauncher& launch_;
  std::uint64_t runs_ = 0;
};

}  // namespace

Result<Recipe> HashKernels::measure(const Graph& graph, NodeId node) {
  ++measured_;
  if (graph.op(node) == "test::unknown") {
    return fail(ErrorKind::kBadInput, "there is no operator test::unknown");
  }
  return invent_recipe(graph, node);
}

Status HashKernels::warm_up(const Graph& /*graph*/, NodeId /*node*/) {
  ++warmed_;
  return {};
}

Result<Duration> HashKernels::time(const Graph& graph, NodeId node) {
  Duration time{};
  for (const TensorId result : graph.results(node)) time += Duration(byte_count(graph, result));
  return time;
}

Result<std::unique_ptr<exec::Kernel>> HashKernels::bind(const Graph& graph, NodeId node,
                                                        exec::Places places) {
  if (graph.op(node) == "test::unbound") {
    return fail(ErrorKind::kBadInput, "test::unbound cannot be bound");
  }
  return std::make_unique<HashKernel>(graph, node, places, launch_);
}

}  // namespace ebb

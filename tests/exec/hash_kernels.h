// The operations of hash_op.h as a framework would run them: they ask the current source for their
// results and for temporaries of sizes that only the signature knows, scribble over all of it, and
// notice when somebody else wrote into a temporary.
//
// Operators of `test::` misbehave while the scalar that their attribute `when` names is not zero:
//   test::fail    is an error, after writing half of what it updates
//   test::throw   likewise, by an exception
//   test::bug     throws an InternalError
//   test::greedy  asks for one byte more than when it was measured
//   test::again   makes one request more
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ebb/exec/kernel.h"

namespace ebb {

struct HashTouch {
  std::span<std::byte> bytes;
  bool writes = false;
};

// What a kernel does when it is called. A value: it may be run later, and more than once.
struct HashWork {
  const Graph& graph;
  NodeId node;
  std::vector<HashTouch> touches;  // of memory that others see, too
  std::function<void(exec::Scalars&)> run;
};

// Runs such work, as a GPU would in its stream. A scalar that it makes must be there on return.
using HashLauncher = std::function<void(HashWork work, exec::Scalars& scalars)>;

class HashKernels final : public exec::Kernels {
 public:
  // Without a launcher kernels work while they are called.
  explicit HashKernels(HashLauncher launch = nullptr) : launch_(std::move(launch)) {}

  [[nodiscard]] Result<Recipe> measure(const Graph& graph, NodeId node) override;
  [[nodiscard]] Status warm_up(const Graph& graph, NodeId node) override;
  // One nanosecond for each byte that it makes.
  [[nodiscard]] Result<Duration> time(const Graph& graph, NodeId node) override;
  [[nodiscard]] Result<std::unique_ptr<exec::Kernel>> bind(const Graph& graph, NodeId node,
                                                           exec::Places places) override;

  [[nodiscard]] int measured() const { return measured_; }
  [[nodiscard]] int warmed() const { return warmed_; }

 private:
  HashLauncher launch_;
  std::atomic<int> measured_ = 0;
  std::atomic<int> warmed_ = 0;
};

}  // namespace ebb

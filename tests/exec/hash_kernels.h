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
#include <memory>

#include "ebb/exec/kernel.h"

namespace ebb {

class HashKernels final : public exec::Kernels {
 public:
  [[nodiscard]] Result<Recipe> measure(const Graph& graph, NodeId node) override;
  [[nodiscard]] Status warm_up(const Graph& graph, NodeId node) override;
  // One nanosecond for each byte that it makes.
  [[nodiscard]] Result<Duration> time(const Graph& graph, NodeId node) override;
  [[nodiscard]] Result<std::unique_ptr<exec::Kernel>> bind(const Graph& graph, NodeId node,
                                                           exec::Places places) override;

  [[nodiscard]] int measured() const { return measured_; }
  [[nodiscard]] int warmed() const { return warmed_; }

 private:
  std::atomic<int> measured_ = 0;
  std::atomic<int> warmed_ = 0;
};

}  // namespace ebb

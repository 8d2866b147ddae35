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
  [[nodiscard]] Result<std::unique_ptr<exec::Kernel>> bind(const Graph& graph, NodeId node,
                                                           exec::Places places) override;

  [[nodiscard]] int measured() const { return measured_; }

 private:
  std::atomic<int> measured_ = 0;
};

}  // namespace ebb

// A device that programs run on: its memory, and lanes to work in.
//
//   auto backend = make_cpu_backend();
//   Result<Arena> arena = backend->make_arena(budget);
//   Result<Arena> host = backend->make_host_slab(program->host_size, nullptr);
//   Executor::make(graph, program, kernels, {*arena, *host, backend->lanes()});
//
// One for each step that is made ready: steps that may run at the same time need lanes of their
// own.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "ebb/base/result.h"
#include "ebb/base/units.h"
#include "ebb/exec/arena.h"
#include "ebb/exec/host_memory.h"
#include "ebb/exec/lanes.h"
#include "ebb/exec/thread_lanes.h"
#include "ebb/plan/device.h"

namespace ebb::exec {

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual Bytes alignment() const = 0;  // of whatever a kernel is given
  // Both fail (kInfeasible) when there is not so much.
  [[nodiscard]] virtual Result<Arena> make_arena(Bytes size) = 0;
  // `tell`, where there is one, hears how far it is, in GiB, where that takes time.
  [[nodiscard]] virtual Result<Arena> make_host_slab(Bytes size, const TellPieces& tell) = 0;
  [[nodiscard]] virtual Lanes& lanes() = 0;
  // From anywhere to anywhere, after all that was put into the compute lane; done on return.
  [[nodiscard]] virtual Status copy(std::byte* to, const std::byte* from, std::size_t size) = 0;
  // How much of its memory nobody has: what the budget "auto" is made of.
  [[nodiscard]] virtual Result<Bytes> free_memory() = 0;
  // What planning should think of it. The costs of its link are measured where it has one, unless
  // they are known.
  [[nodiscard]] virtual Result<Device> describe(const std::optional<Link>& known) = 0;
  // Which hardware it is: what is measured on another one is worth nothing here.
  [[nodiscard]] virtual std::string hardware() const = 0;
};

[[nodiscard]] std::unique_ptr<Backend> make_cpu_backend(ThreadLanesOptions options = {});

}  // namespace ebb::exec

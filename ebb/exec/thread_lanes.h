// Lanes on the CPU: computing is done by the caller's thread, and each direction of the link is a
// thread that copies. Where the system gives no more threads, the caller copies too.
//
// A real link is slower than memory. With a speed given, a copy takes as long as it would take on a
// link of that speed, so that what overlaps can be seen without one.
#pragma once

#include <functional>
#include <memory>

#include "ebb/exec/lanes.h"

namespace ebb::exec {

struct ThreadLanesOptions {
  Bandwidth to_host{};    // zero: as fast as memory
  Bandwidth to_device{};  // the same
  // Called in a lane before each of its copies, and in the caller's before each kernel: tests let
  // lanes dawdle here.
  std::function<void(Lane)> dawdle = nullptr;
};

class ThreadLanes final : public Lanes {
 public:
  explicit ThreadLanes(ThreadLanesOptions options = {});
  ThreadLanes(const ThreadLanes&) = delete;
  ThreadLanes& operator=(const ThreadLanes&) = delete;
  ~ThreadLanes() override;

  void begin(std::size_t instructions, bool is_timed) override;
  void wait(Lane lane, std::uint32_t instruction) override;
  void start(Lane lane, std::uint32_t instruction) override;
  void copy(Lane lane, std::byte* to, const std::byte* from, std::size_t size) override;
  void finish(Lane lane, std::uint32_t instruction) override;
  Status end() override;
  Status settle() override { return {}; }  // end has waited
  Result<std::vector<Interval>> times() override;

 private:
  class Workers;
  // Threads of another process cannot be waited for, nor ended.
  void forget_workers();

  ThreadLanesOptions options_;
  // In a process that was forked there is nobody at work: it gets workers of its own.
  std::unique_ptr<Workers> workers_;
};

}  // namespace ebb::exec

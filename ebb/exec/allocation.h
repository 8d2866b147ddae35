// Who serves the memory that a kernel asks for while it runs.
//
// Frameworks' kernels allocate through a global allocator. Ours stands in front of it and asks, on
// every call, whether this thread is executing a program: then the source installed here serves the
// request, otherwise the framework's own allocator does, as if Ebb were not there. Sources belong
// to one thread at a time and need no locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "ebb/lower/program.h"

namespace ebb::exec {

class AllocationSource {
 public:
  AllocationSource() = default;
  AllocationSource(const AllocationSource&) = delete;
  AllocationSource& operator=(const AllocationSource&) = delete;
  virtual ~AllocationSource() = default;

  // The memory for a request of `bytes` > 0, valid until the step ends; nullptr: let the
  // framework's own allocator serve it. Throws UnexpectedRequest.
  virtual std::byte* allocate(std::size_t bytes) = 0;

  // Whether memory that is given back came from here, and so is not the framework's to free.
  [[nodiscard]] virtual bool owns(const void* memory) const = 0;
};

// A kernel asked for something else than when it was measured. It must unwind through the kernel,
// so it is an exception; the executor turns it into an Error.
class UnexpectedRequest : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Frameworks have an allocator for each: a step on a GPU leaves the host's alone.
enum class MemoryKind : std::uint8_t { kHost, kGpu };

// The source of this thread, or nullptr.
AllocationSource* current_source(MemoryKind kind = MemoryKind::kHost);

// Installs a source for this thread and puts the one before back at the end of the scope.
class SourceScope {
 public:
  explicit SourceScope(AllocationSource* source, MemoryKind kind = MemoryKind::kHost);
  SourceScope(const SourceScope&) = delete;
  SourceScope& operator=(const SourceScope&) = delete;
  ~SourceScope();

 private:
  AllocationSource* before_;
  MemoryKind kind_;
};

// Serves planned offsets: the n-th request gets the n-th place. A request that is larger than its
// place, or one too many, is an UnexpectedRequest; smaller ones and fewer of them are served.
class Replay final : public AllocationSource {
 public:
  void start(std::byte* arena, std::span<const Serving> servings);
  std::byte* allocate(std::size_t bytes) override;
  [[nodiscard]] bool owns(const void* memory) const override;  // of the operation that runs

 private:
  std::byte* arena_ = nullptr;
  std::span<const Serving> servings_;
  std::size_t next_ = 0;
};

}  // namespace ebb::exec

// The allocators that stand in front of PyTorch's own: for CPU memory here, for a GPU's in gpu.h.
//
// They serve a thread that executes a program (exec/allocation.h) from the arena, record what a
// thread that measures asks for, and hand everything else on unchanged: the rest of the user's
// program does not notice them. Installed once, never taken away, because storages remember their
// allocator.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "ebb/exec/allocation.h"

namespace ebb::torch {

void install_allocator();

// What one thread asked for between construction and finish().
class Recording {
 public:
  struct Entry {
    const void* data = nullptr;
    std::size_t bytes = 0;
    bool freed = false;
    std::size_t freed_after = 0;  // how many requests had been made when it was given back
  };

  explicit Recording(exec::MemoryKind kind);
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording();

  // Ends the recording; memory given back later counts as not given back.
  std::vector<Entry> finish();

  struct State;

 private:
  std::unique_ptr<State> state_;
  exec::MemoryKind kind_;
};

// For allocators. What this thread's program has for a request; nullptr where it runs none, or the
// original is to serve it.
std::byte* serve(std::size_t bytes, exec::MemoryKind kind);
// Whether what is given back came from there.
bool is_of_arena(const void* memory, exec::MemoryKind kind);
bool is_recording(exec::MemoryKind kind);
// Both do nothing where this thread records nothing.
void note_request(const void* memory, std::size_t bytes, exec::MemoryKind kind);
void note_given_back(const void* memory, exec::MemoryKind kind);

}  // namespace ebb::torch

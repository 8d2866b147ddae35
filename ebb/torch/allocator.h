// The allocator that stands in front of PyTorch's own for CPU memory.
//
// It serves a thread that executes a program (exec/allocation.h) from the arena, records what a
// thread that measures asks for, and hands everything else on unchanged: the rest of the user's
// program does not notice it. Installed once, never taken away, because storages remember their
// allocator.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

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

  Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording();

  // Ends the recording; memory given back later counts as not given back.
  std::vector<Entry> finish();

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace ebb::torch

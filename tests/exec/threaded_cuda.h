// A CUDA runtime made of threads: the functions of the runtime API that Ebb calls, with the meaning
// that CUDA's documentation gives them, on a machine that has no GPU.
//
// A stream is a worker (stream_workers.h). A record replaces the one before; a wait is for the
// record that is there when it is called, and for nothing where there was none. While a stream is
// captured, what is put into it becomes a node of a graph; others join by waiting for an event that
// was recorded there, and must be joined again at the end; what is put into a stream that is no
// part of it runs at once. A graph that is launched runs with as many workers as it had streams, in
// any order that its dependences leave: those of a stream are among them, so that is all the
// freedom there is. Memory that was allocated is full of 0xCD.
//
// What this is stricter about than CUDA: copies from and to memory that is not pinned do not wait.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/exec/stream_workers.h"

namespace ebb::threaded_cuda {

inline constexpr int kDevices = 8;

// Puts a job into a stream, as a kernel is.
[[nodiscard]] cudaError_t launch(cudaStream_t stream, Job job);

// What has been made and not been destroyed.
struct Living {
  std::size_t allocations = 0;
  std::size_t pinned = 0;
  std::size_t streams = 0;
  std::size_t events = 0;
  std::size_t graphs = 0;
  std::size_t executables = 0;
  std::size_t captures = 0;

  bool operator==(const Living&) const = default;
};
[[nodiscard]] Living living();

// The memory of each device, and how much of the host's can be pinned.
struct Room {
  std::size_t device = std::size_t{1} << 30;
  std::size_t pinned = std::size_t{1} << 30;
};

// Trouble to come, counted from now on. Everything is as it should be after a Trouble{}.
struct Trouble {
  std::size_t failing_call = 0;  // the first is 1; it does nothing, unless it gives something back
  cudaError_t code = cudaErrorUnknown;
  bool is_for_good = false;      // so do all that follow
  std::size_t dropped_wait = 0;  // the first is 1; of those that make a difference to the order
  Room room;
};
void make_trouble(const Trouble& trouble);
// Since then.
struct Happened {
  std::size_t calls = 0;
  std::string failed;  // name of the function that did first
  std::size_t waits = 0;
};
[[nodiscard]] Happened happened();

}  // namespace ebb::threaded_cuda

// Memory of PyTorch's storages, whoever has tensors of them.
#pragma once

#include <cstdint>

namespace ebb::torch {

// Two storages, by the addresses of their StorageImpl, change memory. They are of the same size and
// device, and nobody else uses them meanwhile.
void swap_memory(std::uintptr_t storage, std::uintptr_t other);

}  // namespace ebb::torch

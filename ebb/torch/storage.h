// Memory of PyTorch's storages, whoever has tensors of them.
#pragma once

#include <cstdint>

namespace ebb::torch {

// A storage takes the memory of a copy of it, which is left without; both by the addresses of their
// StorageImpl. Nobody else uses them meanwhile. On the CPU what it had lives on as long as it does:
// arrays of NumPy have the address, and no more than a tensor to keep it.
void move_out(std::uintptr_t storage, std::uintptr_t copy);

}  // namespace ebb::torch

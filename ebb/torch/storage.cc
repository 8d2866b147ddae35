#include "ebb/torch/storage.h"

#include <utility>

#include <c10/core/StorageImpl.h>

namespace ebb::torch {

void swap_memory(std::uintptr_t storage, std::uintptr_t other) {
  // NOLINTBEGIN(performance-no-int-to-ptr): Python has addresses as numbers
  auto* const a = reinterpret_cast<c10::StorageImpl*>(storage);
  auto* const b = reinterpret_cast<c10::StorageImpl*>(other);
  // NOLINTEND(performance-no-int-to-ptr)
  at::DataPtr memory = b->set_data_ptr(at::DataPtr(nullptr, b->device()));
  b->set_data_ptr_noswap(a->set_data_ptr(std::move(memory)));
}

}  // namespace ebb::torch

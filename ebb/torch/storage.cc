#include "ebb/torch/storage.h"

#include <utility>

#include <c10/core/StorageImpl.h>

#include "ebb/base/check.h"

namespace ebb::torch {
namespace {

struct Kept {
  at::DataPtr now;
  at::DataPtr before;
};

void drop(void* kept) { delete static_cast<Kept*>(kept); }

at::DataPtr keep_both(at::DataPtr now, at::DataPtr before) {
  void* const data = now.get();
  const at::Device device = now.device();
  return {data, new Kept{std::move(now), std::move(before)}, drop, device};
}

}  // namespace

void move_out(std::uintptr_t storage, std::uintptr_t copy) {
  // NOLINTBEGIN(performance-no-int-to-ptr): Python has addresses as numbers
  auto* const left = reinterpret_cast<c10::StorageImpl*>(storage);
  auto* const taken = reinterpret_cast<c10::StorageImpl*>(copy);
  // NOLINTEND(performance-no-int-to-ptr)
  EBB_CHECK(left->nbytes() == taken->nbytes() && left->device() == taken->device(),
            "no copy of that storage");
  at::DataPtr memory = taken->set_data_ptr(at::DataPtr(nullptr, taken->device()));
  at::DataPtr before = left->set_data_ptr(at::DataPtr(nullptr, left->device()));
  if (left->device().is_cpu()) memory = keep_both(std::move(memory), std::move(before));
  left->set_data_ptr_noswap(std::move(memory));
}

}  // namespace ebb::torch

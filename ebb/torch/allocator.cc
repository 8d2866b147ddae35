#include "ebb/torch/allocator.h"

#include <algorithm>
#include <array>
#include <utility>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include "ebb/base/check.h"
#include "ebb/exec/allocation.h"

namespace ebb::torch {

struct Recording::State {
  std::vector<Entry> entries;

  void note_given_back(const void* memory) {
    // The last one that has the address: it may have been given out before.
    const auto entry = std::find_if(entries.rbegin(), entries.rend(),
                                    [&](const Entry& e) { return e.data == memory; });
    if (entry == entries.rend()) return;
    entry->freed = true;
    entry->freed_after = entries.size();
  }
};

namespace {

constexpr auto kHost = exec::MemoryKind::kHost;

thread_local std::array<Recording::State*, 2> recordings{};  // by kind of memory

Recording::State*& recording(exec::MemoryKind kind) {
  return recordings[static_cast<std::size_t>(kind)];
}

c10::DeleterFnPtr original_deleter = nullptr;  // set once, before the allocator is installed

// Gives memory back that came through us. Libraries (oneDNN) ask for plain memory and give it back
// with nothing but its address, so that the address alone must tell where it came from.
void give_back(void* memory) {
  if (is_of_arena(memory, kHost)) return;
  note_given_back(memory, kHost);
  original_deleter(memory);
}

class DelegatingAllocator final : public c10::Allocator {
 public:
  explicit DelegatingAllocator(c10::Allocator* original) : original_(original) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    if (std::byte* served = serve(bytes, kHost); served != nullptr) {
      return {served, served, &keep, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DataPtr memory = original_->allocate(bytes);
    if (!is_recording(kHost) || bytes == 0) return memory;
    void* data = memory.release_context();
    note_request(data, bytes, kHost);
    return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
  }

  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &give_back; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    original_->copy_data(to, from, bytes);
  }

 private:
  static void keep(void* /*arena*/) {}

  c10::Allocator* original_;
};

}  // namespace

std::byte* serve(std::size_t bytes, exec::MemoryKind kind) {
  exec::AllocationSource* source = exec::current_source(kind);
  return source == nullptr || bytes == 0 ? nullptr : source->allocate(bytes);
}

bool is_of_arena(const void* memory, exec::MemoryKind kind) {
  const exec::AllocationSource* source = exec::current_source(kind);
  return source != nullptr && source->owns(memory);
}

bool is_recording(exec::MemoryKind kind) { return recording(kind) != nullptr; }

void note_request(const void* memory, std::size_t bytes, exec::MemoryKind kind) {
  if (Recording::State* state = recording(kind); state != nullptr) {
    state->entries.push_back({.data = memory, .bytes = bytes});
  }
}

void note_given_back(const void* memory, exec::MemoryKind kind) {
  if (Recording::State* state = recording(kind); state != nullptr) state->note_given_back(memory);
}

void install_allocator() {
  static DelegatingAllocator* const kOurs = [] {
    // Leaked on purpose: storages that are destroyed at the very end still point to it.
    c10::Allocator* original = c10::GetCPUAllocator();
    original_deleter = original->raw_deleter();
    EBB_CHECK(original_deleter != nullptr, "the CPU allocator gives out no plain memory");
    auto* made = new DelegatingAllocator(original);  // NOLINT(*-owning-memory)
    c10::SetCPUAllocator(made, /*priority=*/1);
    return made;
  }();
  EBB_CHECK(c10::GetCPUAllocator() == kOurs, "somebody replaced the CPU allocator of PyTorch");
}

Recording::Recording(exec::MemoryKind kind) : state_(std::make_unique<State>()), kind_(kind) {
  EBB_CHECK(recording(kind) == nullptr, "a recording within a recording");
  recording(kind) = state_.get();
}

Recording::~Recording() { recording(kind_) = nullptr; }

std::vector<Recording::Entry> Recording::finish() {
  recording(kind_) = nullptr;
  return std::move(state_->entries);
}

}  // namespace ebb::torch

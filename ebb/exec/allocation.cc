#include "ebb/exec/allocation.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace ebb::exec {
namespace {

// By kind of memory.
thread_local std::array<AllocationSource*, 2> installed{};

AllocationSource*& slot(MemoryKind kind) { return installed[static_cast<std::size_t>(kind)]; }

constexpr std::string_view kRemedy =
    "what it needs depends on its data, or the number of threads or a library setting changed "
    "since "
    "it was compiled (then compile again)";

}  // namespace

AllocationSource* current_source(MemoryKind kind) { return slot(kind); }

SourceScope::SourceScope(AllocationSource* source, MemoryKind kind)
    : before_(slot(kind)), kind_(kind) {
  slot(kind) = source;
}

SourceScope::~SourceScope() { slot(kind_) = before_; }

void Replay::start(std::byte* arena, std::span<const Serving> servings) {
  arena_ = arena;
  servings_ = servings;
  next_ = 0;
}

std::byte* Replay::allocate(std::size_t bytes) {
  const std::size_t count = servings_.size();
  if (next_ == count) {
    throw UnexpectedRequest(fmt::format("it asked for {} in request {}, and {} were planned: {}",
                                        to_text(Bytes{static_cast<std::int64_t>(bytes)}), count + 1,
                                        count, kRemedy));
  }
  const Serving& serving = servings_[next_];
  if (bytes > static_cast<std::size_t>(serving.size.count)) {
    throw UnexpectedRequest(fmt::format("it asked for {} in request {} of {}, planned were {}: {}",
                                        to_text(Bytes{static_cast<std::int64_t>(bytes)}), next_ + 1,
                                        count, to_text(serving.size), kRemedy));
  }
  ++next_;
  return serving.offset == Serving::kElsewhere ? nullptr : arena_ + serving.offset.count;
}

bool Replay::owns(const void* memory) const {
  return std::any_of(servings_.begin(), servings_.end(), [&](const Serving& serving) {
    return serving.offset != Serving::kElsewhere && arena_ + serving.offset.count == memory;
  });
}

}  // namespace ebb::exec

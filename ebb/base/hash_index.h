// An index from hashes to dense ids 0, 1, 2, ... whose keys live with the caller. It is one flat
// array, so copying a graph copies it with one memcpy, and looking a name up touches one cache line
// in the usual case.
//
// The order of the slots depends on the hash only; nothing iterates over them, so no output does.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace ebb {

// Eight bytes at a time, multiply and fold; good for table slots, not for adversaries' patience:
// a lookup compares whole keys, so collisions cost time only.
inline std::uint64_t hash_bytes(std::string_view text) {
  __extension__ using Wide = unsigned __int128;
  constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15;
  const auto mix = [](std::uint64_t a, std::uint64_t b) {
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  };
  std::uint64_t state = text.size() * kMultiplier;
  const char* p = text.data();
  std::size_t left = text.size();
  for (; left >= 8; left -= 8, p += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, p, 8);
    state = mix(state ^ word, kMultiplier);
  }
  if (left > 0) {
    std::uint64_t word = 0;
    std::memcpy(&word, p, left);
    state = mix(state ^ word, kMultiplier);
  }
  return mix(state, 0xD6E8FEB86659FD93);
}

class HashIndex {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  // The id inserted under `hash` for which `is_it(id)` holds, or kNone.
  template <class IsIt>
  [[nodiscard]] std::uint32_t find(std::uint64_t hash, IsIt&& is_it) const {
    if (slots_.empty()) return kNone;
    const std::size_t mask = slots_.size() - 1;
    const auto fragment = static_cast<std::uint32_t>(hash >> 32);
    for (std::size_t i = fragment & mask;; i = (i + 1) & mask) {
      const Slot& slot = slots_[i];
      if (slot.id == kNone) return kNone;
      if (slot.hash == fragment && is_it(slot.id)) return slot.id;
    }
  }

  // Adds an id that `find` would not find.
  void insert(std::uint64_t hash, std::uint32_t id) {
    if (4 * (count_ + 1) > 3 * slots_.size()) grow(slots_.empty() ? 16 : 2 * slots_.size());
    place(static_cast<std::uint32_t>(hash >> 32), id);
    ++count_;
  }

  // Starts loading what find(hash) will look at. A reader that knows several names at once asks for
  // all of them first, and waits for memory once.
  void prefetch(std::uint64_t hash) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[(hash >> 32U) & (slots_.size() - 1)]);
  }

  void reserve(std::size_t count) {
    std::size_t size = 16;
    while (3 * size < 4 * count) size *= 2;
    if (size > slots_.size()) grow(size);
  }

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::uint32_t id = kNone;
  };

  void place(std::uint32_t fragment, std::uint32_t id) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = fragment & mask;
    while (slots_[i].id != kNone) i = (i + 1) & mask;
    slots_[i] = Slot{fragment, id};
  }

  void grow(std::size_t size) {
    std::vector<Slot> old(size);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.id != kNone) place(slot.hash, slot.id);
    }
  }

  std::vector<Slot> slots_;
  std::size_t count_ = 0;
};

}  // namespace ebb

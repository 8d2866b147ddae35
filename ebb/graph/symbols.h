// Interned strings: each distinct text of a graph (names, operators, attribute keys) is kept once
// and named by a small id. Equal texts have equal ids.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/check.h"
#include "ebb/base/hash_index.h"
#include "ebb/base/ids.h"

namespace ebb {

using SymbolId = Id<struct SymbolTag>;

class Symbols {
 public:
  // Texts of one graph share a pool that must stay below this.
  static constexpr std::size_t kMaxBytes = 0xFFFFFFFF;

  SymbolId intern(std::string_view text) { return intern(text, hash_bytes(text)); }
  SymbolId intern(std::string_view text, std::uint64_t hash) {
    const std::uint32_t known = find(hash, text);
    if (known != HashIndex::kNone) return SymbolId(known);
    EBB_CHECK(text.size() <= kMaxBytes - chars_.size(), "a graph's texts exceed 4 GiB");
    const auto id = static_cast<std::uint32_t>(ends_.size());
    chars_.append(text);
    ends_.push_back(static_cast<std::uint32_t>(chars_.size()));
    index_.insert(hash, id);
    return SymbolId(id);
  }

  // The id of `text`, or the id of nothing when it was never interned.
  [[nodiscard]] SymbolId find(std::string_view text) const { return find(text, hash_bytes(text)); }
  [[nodiscard]] SymbolId find(std::string_view text, std::uint64_t hash) const {
    const std::uint32_t known = find(hash, text);
    return known == HashIndex::kNone ? SymbolId() : SymbolId(known);
  }

  void prefetch(std::uint64_t hash) const { index_.prefetch(hash); }

  // Valid until the next intern.
  [[nodiscard]] std::string_view text(SymbolId id) const {
    const std::uint32_t begin = id.index() == 0 ? 0 : ends_[id.index() - 1];
    return std::string_view(chars_).substr(begin, ends_[id.index()] - begin);
  }

  [[nodiscard]] std::size_t size() const { return ends_.size(); }
  void reserve(std::size_t symbols, std::size_t bytes) {
    index_.reserve(symbols);
    ends_.reserve(symbols);
    chars_.reserve(bytes);
  }

 private:
  [[nodiscard]] std::uint32_t find(std::uint64_t hash, std::string_view wanted) const {
    return index_.find(hash, [&](std::uint32_t id) { return text(SymbolId(id)) == wanted; });
  }

  std::string chars_;
  std::vector<std::uint32_t> ends_;
  HashIndex index_;
};

}  // namespace ebb

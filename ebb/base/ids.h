// Typed ids: small numbers that name the parts of a graph. They stay valid when a graph is copied,
// which pointers would not, and a NodeId does not convert to a TensorId.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>

namespace ebb {

template <class Tag>
class Id {
 public:
  constexpr Id() = default;  // the id of nothing
  constexpr explicit Id(std::uint32_t index) : index_(index) {}

  [[nodiscard]] constexpr bool valid() const { return index_ != kNone; }
  [[nodiscard]] constexpr std::uint32_t index() const { return index_; }

  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  std::uint32_t index_ = kNone;
};

// The ids begin, begin+1, ... as a range to loop over.
template <class IdType>
class IdRange {
 public:
  class Iterator {
   public:
    using value_type = IdType;
    using difference_type = std::ptrdiff_t;

    constexpr Iterator() = default;
    constexpr explicit Iterator(std::uint32_t index) : index_(index) {}
    constexpr IdType operator*() const { return IdType(index_); }
    constexpr Iterator& operator++() {
      ++index_;
      return *this;
    }
    constexpr Iterator operator++(int) {
      Iterator old = *this;
      ++index_;
      return old;
    }
    friend constexpr bool operator==(Iterator, Iterator) = default;

   private:
    std::uint32_t index_ = 0;
  };

  constexpr IdRange() = default;
  constexpr IdRange(std::uint32_t begin, std::uint32_t count) : begin_(begin), count_(count) {}

  [[nodiscard]] constexpr Iterator begin() const { return Iterator(begin_); }
  [[nodiscard]] constexpr Iterator end() const { return Iterator(begin_ + count_); }
  [[nodiscard]] constexpr std::uint32_t size() const { return count_; }
  [[nodiscard]] constexpr bool empty() const { return count_ == 0; }
  constexpr IdType operator[](std::uint32_t i) const { return IdType(begin_ + i); }

 private:
  std::uint32_t begin_ = 0;
  std::uint32_t count_ = 0;
};

}  // namespace ebb

template <class Tag>
struct std::hash<ebb::Id<Tag>> {
  std::size_t operator()(ebb::Id<Tag> id) const noexcept { return id.index(); }
};

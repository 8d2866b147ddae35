// One block of memory, for everything that a program places in it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "ebb/base/result.h"
#include "ebb/base/units.h"

namespace ebb::exec {

class Arena {
 public:
  // Zeroed host memory, aligned to a page. Untouched pages cost nothing. Fails (kInfeasible) when
  // the machine has not that much.
  [[nodiscard]] static Result<Arena> make(Bytes size);

  // Memory of any kind, to be given back by `release`.
  Arena(std::byte* data, Bytes size, std::function<void(std::byte*)> release)
      : data_(data, std::move(release)), size_(size) {}

  [[nodiscard]] std::byte* data() const { return data_.get(); }
  [[nodiscard]] Bytes size() const { return size_; }

 private:
  std::unique_ptr<std::byte, std::function<void(std::byte*)>> data_;
  Bytes size_;
};

}  // namespace ebb::exec

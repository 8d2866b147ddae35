// "Did you mean ...?": the known word closest to a mistyped one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ebb {

// Collects candidates one at a time, so that a caller with a million names makes no list of them.
//
//   NearestWord nearest("relu_");
//   for (auto name : names) nearest.offer(name);
//   message += nearest.hint();
class NearestWord {
 public:
  explicit NearestWord(std::string_view wanted);

  void offer(std::string_view candidate);  // must outlive this object
  // The best so far, the first of equals; empty when nothing is close enough to be worth saying.
  [[nodiscard]] std::string_view word() const { return best_; }
  // "; did you mean 'relu'?", or nothing.
  [[nodiscard]] std::string hint() const;

 private:
  std::string_view wanted_;
  std::string_view best_;
  std::size_t limit_;  // only distances below this are of interest
};

}  // namespace ebb

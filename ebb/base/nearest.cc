#include "ebb/base/nearest.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

#include "ebb/base/result.h"

namespace ebb {
namespace {

constexpr std::size_t kLongest = 64;  // nobody mistypes longer words in a way we could guess

// How many letters must be added, dropped, replaced or swapped with their neighbour to get from one
// word to the other; `limit` when it is at least that.
std::size_t distance(std::string_view a, std::string_view b, std::size_t limit) {
  const std::size_t difference = std::max(a.size(), b.size()) - std::min(a.size(), b.size());
  if (difference >= limit) return limit;
  using Row = std::array<std::size_t, kLongest + 1>;
  Row before{};  // the row before the last
  Row last{};
  Row row{};
  std::size_t least_before = 0;
  std::iota(row.begin(), row.end(), 0U);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = last;
    last = row;
    row[0] = i;
    std::size_t least = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1), last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
      least = std::min(least, row[j]);
    }
    // Of two rows in a row, no later one is smaller.
    if (least >= limit && least_before >= limit) return limit;
    least_before = least;
  }
  return std::min(row[b.size()], limit);
}

}  // namespace

NearestWord::NearestWord(std::string_view wanted)
    : wanted_(wanted), limit_(wanted.size() > kLongest ? 0 : 1 + (wanted.size() + 2) / 3) {
  // Any two words of one or two letters are close; that is no reason to mention one of them.
  if (wanted.size() < 3) limit_ = 1;
}

void NearestWord::offer(std::string_view candidate) {
  if (limit_ == 0 || candidate.empty() || candidate.size() > kLongest) return;
  const std::size_t found = distance(wanted_, candidate, limit_);
  if (found >= limit_) return;
  limit_ = found;
  best_ = candidate;
}

std::string NearestWord::hint() const {
  return best_.empty() ? std::string() : fmt::format("; did you mean '{}'?", printable(best_));
}

}  // namespace ebb

#include "ebb/report/curve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <fmt/format.h>

namespace ebb {

std::vector<Bytes> bucket_maxima(std::span<const Bytes> values, std::size_t buckets) {
  const std::size_t count = std::min(values.size(), buckets);
  std::vector<Bytes> maxima(count);
  for (std::size_t i = 0; i < values.size(); ++i) {
    Bytes& bucket = maxima[i * count / values.size()];
    bucket = std::max(bucket, values[i]);
  }
  return maxima;
}

std::string draw_curve(std::span<const Bytes> values, std::size_t marked, const std::string& mark,
                       const CurveStyle& style) {
  if (values.empty()) return {};
  constexpr std::array<const char*, 9> kBlocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr int kSteps = 8;  // per row

  std::vector<Bytes> columns = bucket_maxima(values, static_cast<std::size_t>(style.width));
  std::size_t marked_column = marked * columns.size() / values.size();
  // A short series is stretched: each value takes several columns.
  const std::size_t stretch =
      std::max<std::size_t>(1, static_cast<std::size_t>(style.width) / columns.size());
  marked_column = marked_column * stretch + stretch / 2;

  const Bytes top = *std::max_element(columns.begin(), columns.end());
  const double scale = top.count == 0 ? 0 : style.height * kSteps / static_cast<double>(top.count);
  const std::string top_label = to_human(top);
  std::string out;
  for (int row = style.height - 1; row >= 0; --row) {
    out += fmt::format("  {:>10} ┤", row == style.height - 1 ? top_label : "");
    for (const Bytes value : columns) {
      const int filled = static_cast<int>(std::lround(static_cast<double>(value.count) * scale));
      const int here = std::clamp(filled - row * kSteps, 0, kSteps);
      for (std::size_t i = 0; i < stretch; ++i) out += kBlocks[static_cast<std::size_t>(here)];
    }
    while (out.back() == ' ') out.pop_back();
    out += '\n';
  }
  const std::size_t width = columns.size() * stretch;
  out += fmt::format("  {:>10} └", "0 B");
  for (std::size_t i = 0; i < width; ++i) out += "─";
  // The remark stands right of the arrow where there is room, left of it otherwise.
  const std::string indent(14, ' ');
  if (marked_column + 2 + mark.size() <= width || marked_column < mark.size() + 1) {
    out += fmt::format("\n{}{}▲ {}\n", indent, std::string(marked_column, ' '), mark);
  } else {
    out += fmt::format("\n{}{}{} ▲\n", indent, std::string(marked_column - mark.size() - 1, ' '),
                       mark);
  }
  return out;
}

}  // namespace ebb

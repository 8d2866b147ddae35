// How near offset layout comes to the best on MiniMalloc's challenging problems
// (minimalloc/NOTICE), which are published with a capacity of 1 MiB.
//
//   layout_minimalloc [FOLDER]        (bench/minimalloc of the sources)
//
// For each file a line: how many buffers, the bound against the capacity, and the arena against the
// capacity for the usual effort, ten times and a hundred times as much, each with its CPU seconds.
// The worst of every column stands below. Every layout is checked.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "ebb/base/check.h"
#include "ebb/base/file.h"
#include "ebb/plan/layout.h"

namespace ebb {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::int64_t, 3> kEfforts = {1, 10, 100};  // times the usual one

double cpu_seconds() {
  std::timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Takes what stands before the separator, or everything, off the text.
std::string_view next_part(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

std::int64_t number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  EBB_CHECK(problem == std::errc() && end == text.data() + text.size(), "'{}' is no number", text);
  return value;
}

std::vector<LayoutBuffer> read_buffers(const fs::path& path) {
  const auto content = read_file(path.string());
  EBB_CHECK(content.has_value(), "{}", content.error().message);
  std::string_view rest = *content;
  const std::string_view header = next_part(rest, '\n');
  EBB_CHECK(header == "id,lower,upper,size", "{} begins with '{}'", path.string(), header);
  std::vector<LayoutBuffer> buffers;
  while (!rest.empty()) {
    std::string_view line = next_part(rest, '\n');
    next_part(line, ',');  // the id
    const std::int64_t lower = number(next_part(line, ','));
    const std::int64_t upper = number(next_part(line, ','));
    buffers.push_back({.size = Bytes{number(next_part(line, ','))},
                       .first = static_cast<std::uint32_t>(lower),
                       .last = static_cast<std::uint32_t>(upper - 1),
                       .at = {}});
  }
  return buffers;
}

struct Outcome {
  double ratio = 0;  // of the arena to the capacity
  double seconds = 0;
};

Outcome lay_out_with(std::int64_t times, const std::vector<LayoutBuffer>& buffers,
                     double capacity) {
  LayoutOptions options;
  options.effort *= times;
  const double begin = cpu_seconds();
  const Layout layout = lay_out(buffers, options);
  const double seconds = cpu_seconds() - begin;
  const Status right = check_layout(buffers, layout, options);
  EBB_CHECK(right.has_value(), "{}", right.error().message);
  return {static_cast<double>(layout.size.count) / capacity, seconds};
}

void measure(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".csv") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  fmt::print("{:14} {:>7} {:>6}", "", "buffers", "bound");
  for (const std::int64_t times : kEfforts)
    fmt::print(" {:>9} {:>8}", "arena", fmt::format("x{}", times));
  fmt::print("\n");
  std::array<Outcome, kEfforts.size()> worst;
  for (const fs::path& file : files) {
    const std::vector<LayoutBuffer> buffers = read_buffers(file);
    const auto capacity = static_cast<double>(number(file.stem().extension().string().substr(1)));
    const double bound = static_cast<double>(lay_out(buffers, {.effort = 0}).bound.count);
    fmt::print("{:14} {:7} {:6.3f}", file.stem().string(), buffers.size(), bound / capacity);
    for (std::size_t i = 0; i < kEfforts.size(); ++i) {
      const Outcome outcome = lay_out_with(kEfforts[i], buffers, capacity);
      fmt::print(" {:9.4f} {:6.2f} s", outcome.ratio, outcome.seconds);
      std::fflush(stdout);
      worst[i].ratio = std::max(worst[i].ratio, outcome.ratio);
      worst[i].seconds = std::max(worst[i].seconds, outcome.seconds);
    }
    fmt::print("\n");
  }
  fmt::print("{:29}", "worst");
  for (const Outcome& each : worst) fmt::print(" {:9.4f} {:6.2f} s", each.ratio, each.seconds);
  fmt::print("\n");
}

}  // namespace
}  // namespace ebb

int main(int argc, char** argv) {
  try {
    ebb::measure(argc > 1 ? argv[1] : EBB_MINIMALLOC_FOLDER);
    return 0;
  } catch (const std::exception& error) {
    std::fputs(error.what(), stderr);
    return 1;
  }
}

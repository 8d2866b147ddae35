#include "ebb/plan/layout_problem.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <numeric>
#include <tuple>

#include "ebb/base/check.h"

namespace ebb {
namespace {

// Half of what fits, so that an offset plus a size always does.
constexpr std::int64_t kTooLarge = std::int64_t{1} << 62U;

void check_buffers(std::span<const LayoutBuffer> buffers, const LayoutOptions& options) {
  const std::int64_t alignment = options.alignment.count;
  EBB_CHECK(alignment > 0 && std::has_single_bit(static_cast<std::uint64_t>(alignment)),
            "an alignment of {} bytes is not a power of two", alignment);
  std::int64_t room = kTooLarge;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const LayoutBuffer& buffer = buffers[i];
    EBB_CHECK(buffer.size.count >= 0, "buffer {} has a size of {} bytes", i, buffer.size.count);
    EBB_CHECK(buffer.first <= buffer.last, "buffer {} lives from {} to {}", i, buffer.first,
              buffer.last);
    EBB_CHECK(buffer.size.count < room && alignment < room - buffer.size.count,
              "the buffers up to {} have 2^62 bytes or more", i);
    room -= buffer.size.count + alignment;
    if (!buffer.at) continue;
    EBB_CHECK(
        buffer.at->count >= 0 && buffer.at->count < kTooLarge && buffer.at->count % alignment == 0,
        "buffer {} is fixed at {}, which is not a multiple of {}", i, buffer.at->count, alignment);
  }
}

// Two neighbours among those alive suffice: who overlaps anybody overlaps a neighbour.
void check_fixed(std::vector<FixedItem> fixed) {
  struct Alive {
    std::int64_t end = 0;
    std::uint32_t last = 0;
    std::uint32_t buffer = 0;
  };
  std::map<std::int64_t, Alive> alive;                // by offset
  std::multimap<std::uint32_t, std::int64_t> deaths;  // last section, offset
  std::stable_sort(fixed.begin(), fixed.end(), [](const FixedItem& a, const FixedItem& b) {
    return a.item.first < b.item.first;
  });
  for (const auto& [item, offset] : fixed) {
    while (!deaths.empty() && deaths.begin()->first < item.first) {
      alive.erase(deaths.begin()->second);
      deaths.erase(deaths.begin());
    }
    const auto above = alive.lower_bound(offset);
    if (above != alive.end()) {
      EBB_CHECK(offset + item.size <= above->first,
                "buffers {} and {} have fixed offsets at which they overlap", above->second.buffer,
                item.buffer);
    }
    if (above != alive.begin()) {
      const auto& [below_offset, below] = *std::prev(above);
      EBB_CHECK(below.end <= offset, "buffers {} and {} have fixed offsets at which they overlap",
                below.buffer, item.buffer);
    }
    alive.emplace_hint(above, offset, Alive{offset + item.size, item.last, item.buffer});
    deaths.emplace(item.last, offset);
  }
}

// By section, the largest end of a fixed item. The highest are painted first, and nobody paints a
// section twice: `next` leads over what is painted already.
std::vector<std::int64_t> find_floor(std::vector<FixedItem> fixed, std::size_t sections) {
  std::vector<std::int64_t> floor(sections, 0);
  std::vector<std::uint32_t> next(sections + 1);
  std::iota(next.begin(), next.end(), 0U);
  const auto unpainted_from = [&](std::uint32_t section) {
    while (next[section] != section) {
      next[section] = next[next[section]];
      section = next[section];
    }
    return section;
  };
  std::stable_sort(fixed.begin(), fixed.end(), [](const FixedItem& a, const FixedItem& b) {
    return a.offset + a.item.size > b.offset + b.item.size;
  });
  for (const auto& [item, offset] : fixed) {
    for (std::uint32_t section = unpainted_from(item.first); section <= item.last;
         section = unpainted_from(section)) {
      floor[section] = offset + item.size;
      next[section] = section + 1;
    }
  }
  return floor;
}

// The first time of each section.
std::vector<std::uint32_t> find_sections(std::span<const LayoutBuffer> buffers) {
  std::vector<std::uint32_t> births;
  std::vector<std::uint32_t> deaths;
  for (const LayoutBuffer& buffer : buffers) {
    if (buffer.size.count == 0) continue;
    births.push_back(buffer.first);
    deaths.push_back(buffer.last);
  }
  std::sort(births.begin(), births.end());
  std::sort(deaths.begin(), deaths.end());
  std::vector<std::uint32_t> sections;
  auto death = deaths.begin();
  for (const std::uint32_t birth : births) {
    const auto dead = std::lower_bound(death, deaths.end(), birth);
    if (sections.empty() || dead != death) sections.push_back(birth);
    death = dead;
  }
  return sections;
}

}  // namespace

LayoutProblem make_layout_problem(std::span<const LayoutBuffer> buffers,
                                  const LayoutOptions& options) {
  check_buffers(buffers, options);
  const std::vector<std::uint32_t> sections = find_sections(buffers);
  const auto section_of = [&](std::uint32_t time) {
    const auto after = std::upper_bound(sections.begin(), sections.end(), time);
    return static_cast<std::uint32_t>(after - sections.begin() - 1);
  };
  const std::int64_t alignment = options.alignment.count;

  LayoutProblem problem;
  problem.load.assign(sections.size() + 1, 0);  // first the changes, then their sums
  std::vector<std::int64_t> fixed_change = problem.load;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const LayoutBuffer& buffer = buffers[i];
    const std::int64_t size = (buffer.size.count + alignment - 1) / alignment;
    const std::int64_t offset = buffer.at ? buffer.at->count / alignment : 0;
    if (buffer.at) problem.fixed_end = std::max(problem.fixed_end, offset + size);
    if (size == 0) continue;
    const LayoutItem item{.size = size,
                          .first = section_of(buffer.first),
                          .last = section_of(buffer.last),
                          .buffer = static_cast<std::uint32_t>(i)};
    problem.load[item.first] += size;
    problem.load[item.last + 1] -= size;
    if (buffer.at) {
      fixed_change[item.first] += size;
      fixed_change[item.last + 1] -= size;
      problem.fixed.push_back({item, offset});
    } else {
      problem.items.push_back(item);
    }
  }
  // The same problem is the same, in whatever order it is told.
  std::stable_sort(problem.items.begin(), problem.items.end(),
                   [](const LayoutItem& a, const LayoutItem& b) {
                     return std::tie(a.first, a.last, b.size) < std::tie(b.first, b.last, a.size);
                   });
  check_fixed(problem.fixed);
  problem.floor = find_floor(problem.fixed, sections.size());
  problem.bound = problem.fixed_end;
  std::int64_t load = 0;
  std::int64_t fixed_load = 0;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    load += problem.load[i];
    fixed_load += fixed_change[i];
    problem.load[i] = load;
    problem.bound = std::max(problem.bound, load);
    if (fixed_load < problem.floor[i]) problem.room_below_floor = true;
  }
  problem.load.pop_back();
  problem.target = std::max(problem.bound, options.enough.count / options.alignment.count);
  return problem;
}

}  // namespace ebb

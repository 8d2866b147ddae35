#include "ebb/rewrite/line_order.h"

#include <cmath>
#include <utility>

#include "ebb/base/check.h"

namespace ebb {
namespace {

constexpr int kLabelBits = 62;
constexpr std::uint64_t kLabels = std::uint64_t{1} << kLabelBits;
// A range of 2^i labels is crowded when it holds more than (2/kCrowding)^i lines. Between 1 and 2:
// nearer to 1 there is room for more lines, nearer to 2 numbering anew is rarer. With 1.4 there is
// room for 4 * 10^9 lines.
constexpr double kCrowding = 1.4;

}  // namespace

LineOrder::LineOrder(std::span<const NodeId> order) : lines_(order.size()) {
  const std::uint64_t step = kLabels / (order.size() + 1);
  NodeId previous;
  std::uint64_t label = step;
  for (const NodeId node : order) {
    at(node) = {.label = label, .previous = previous, .next = {}, .anchor = {}, .last_hung = node};
    (previous.valid() ? at(previous).next : first_) = node;
    previous = node;
    label += step;
  }
}

void LineOrder::insert_after(NodeId where, NodeId line) {
  EBB_CHECK(line.index() == lines_.size(), "line {} is inserted twice, or too early", line.index());
  lines_.push_back({.label = 0, .previous = {}, .next = {}, .anchor = {}, .last_hung = line});
  link(where, line);
}

void LineOrder::insert_before(NodeId where, NodeId line) { insert_after(previous(where), line); }

void LineOrder::hang(NodeId anchor, NodeId line, NodeId limit) {
  NodeId above = find_last_hung(anchor);
  if (!is_before(above, limit)) above = anchor;
  hang_below(above, anchor, line);
}

NodeId LineOrder::find_last_hung(NodeId line) {
  NodeId last = line;
  while (at(last).last_hung != last) last = at(last).last_hung;
  while (at(line).last_hung != last) line = std::exchange(at(line).last_hung, last);
  return last;
}

void LineOrder::hang_below(NodeId above, NodeId anchor, NodeId line) {
  insert_after(above, line);
  at(line).anchor = anchor;
  if (find_last_hung(anchor) != above) return;
  // It is now the last below its anchor, and below whatever ended there. Where the anchor itself
  // was the last, those above find the line through it.
  if (anchor == above) {
    at(anchor).last_hung = line;
  } else {
    set_last_hung(anchor, line);
  }
}

void LineOrder::set_last_hung(NodeId line, NodeId last) {
  const NodeId old = find_last_hung(line);
  // All are found before any is changed, for one may be found through another.
  NodeId end = at(line).anchor;
  while (end.valid() && find_last_hung(end) == old) end = at(end).anchor;
  for (NodeId up = line; up != end; up = at(up).anchor) at(up).last_hung = last.valid() ? last : up;
}

void LineOrder::move_after(NodeId where, NodeId line) {
  const NodeId previous = at(line).previous;
  const NodeId next = at(line).next;
  (previous.valid() ? at(previous).next : first_) = next;
  if (next.valid()) at(next).previous = previous;
  // It hangs nowhere any more, and what hung below it stays where it is.
  set_last_hung(line, {});
  at(line).anchor = {};
  link(where, line);
}

void LineOrder::link(NodeId previous, NodeId line) {
  const auto gap = [&] {
    const NodeId next = previous.valid() ? at(previous).next : first_;
    const std::uint64_t begin = previous.valid() ? at(previous).label : 0;
    return std::pair{begin, (next.valid() ? at(next).label : kLabels) - begin};
  };
  if (gap().second < 2) make_room_after(previous.valid() ? previous : first_);
  const auto [begin, width] = gap();
  const NodeId next = previous.valid() ? at(previous).next : first_;
  at(line).label = begin + width / 2;
  at(line).previous = previous;
  at(line).next = next;
  (previous.valid() ? at(previous).next : first_) = line;
  if (next.valid()) at(next).previous = line;
}

// Looks at ranges of 2, 4, 8, ... labels around the line until one is not crowded, and spreads the
// lines in it evenly.
void LineOrder::make_room_after(NodeId line) {
  NodeId first = line;
  NodeId last = line;
  std::uint64_t count = 1;
  for (int bits = 1; bits <= kLabelBits; ++bits) {
    const std::uint64_t width = std::uint64_t{1} << static_cast<unsigned>(bits);
    const std::uint64_t begin = at(line).label & ~(width - 1);
    while (at(first).previous.valid() && at(at(first).previous).label >= begin) {
      first = at(first).previous;
      ++count;
    }
    while (at(last).next.valid() && at(at(last).next).label - begin < width) {
      last = at(last).next;
      ++count;
    }
    // Every line must have a free label behind it, and none may be the first label of all.
    const std::uint64_t step = width / (count + 1);
    if (step < 2 || static_cast<double>(count) > std::pow(2 / kCrowding, bits)) continue;
    std::uint64_t label = begin;
    for (NodeId at_line = first;; at_line = at(at_line).next) {
      label += step;
      at(at_line).label = label;
      if (at_line == last) return;
    }
  }
  EBB_CHECK(false, "more lines than labels");
}

std::vector<NodeId> LineOrder::lines() const {
  std::vector<NodeId> order;
  order.reserve(lines_.size());
  for (NodeId line = first_; line.valid(); line = at(line).next) order.push_back(line);
  return order;
}

}  // namespace ebb

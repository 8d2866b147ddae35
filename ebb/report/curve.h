// A series of byte counts drawn with block characters, for terminals.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ebb/base/units.h"

namespace ebb {

struct CurveStyle {
  int width = 64;  // columns of the drawing itself, without the scale
  int height = 8;  // rows
};

// Time runs to the right, bytes upwards from zero. Where many values share a column it shows the
// largest of them, so that a peak is never lost. `marked` is the value to point at from below, with
// `mark` beside the arrow. Empty for an empty series.
std::string draw_curve(std::span<const Bytes> values, std::size_t marked, const std::string& mark,
                       const CurveStyle& style = {});

// The series in at most `buckets` values, each the largest of those it stands for.
std::vector<Bytes> bucket_maxima(std::span<const Bytes> values, std::size_t buckets);

}  // namespace ebb

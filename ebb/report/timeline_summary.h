// A timeline in a few lines for people, or as JSON for programs.
#pragma once

#include <string>

#include "ebb/plan/timeline.h"

namespace ebb {

// "waits 132 ms for a swap-in, 3.3 ms for ...", or "nothing waits".
std::string stalls_text(const Timeline& timeline);

// Time, what each lane is busy with, waits, and memory; three lines.
std::string to_text(const Timeline& timeline);
// The same as one object; {"step_seconds": 0.66, "peak_bytes": ..., ...}.
std::string to_json(const Timeline& timeline);

}  // namespace ebb

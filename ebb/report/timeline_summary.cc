#include "ebb/report/timeline_summary.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ebb {
namespace {

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

Duration busy(const Timeline& timeline, Lane lane) {
  return timeline.busy[static_cast<std::size_t>(lane)];
}

}  // namespace

std::string stalls_text(const Timeline& timeline) {
  std::string out;
  for (std::size_t i = 0; i < kStallCauseCount; ++i) {
    if (timeline.stalled[i] == Duration::zero()) continue;
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", to_human(timeline.stalled[i]),
                       name_of(static_cast<StallCause>(i)));
  }
  return out.empty() ? "nothing waits" : "waits " + out;
}

std::string to_text(const Timeline& timeline) {
  return fmt::format(
      "step:   {}; {}\n"
      "busy:   {} with computing, {} with copies to the host, {} with copies back\n"
      "memory: {} on the device, {} on the host\n",
      to_human(timeline.total), stalls_text(timeline), to_human(busy(timeline, Lane::kCompute)),
      to_human(busy(timeline, Lane::kToHost)), to_human(busy(timeline, Lane::kToDevice)),
      to_human(timeline.device_peak), to_human(timeline.host_peak));
}

std::string to_json(const Timeline& timeline) {
  nlohmann::ordered_json stalls = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < kStallCauseCount; ++i) {
    stalls[std::string(name_of(static_cast<StallCause>(i)))] = seconds(timeline.stalled[i]);
  }
  const nlohmann::ordered_json out{{"step_seconds", seconds(timeline.total)},
                                   {"peak_bytes", timeline.device_peak.count},
                                   {"host_bytes", timeline.host_peak.count},
                                   {"compute_seconds", seconds(busy(timeline, Lane::kCompute))},
                                   {"to_host_seconds", seconds(busy(timeline, Lane::kToHost))},
                                   {"to_device_seconds", seconds(busy(timeline, Lane::kToDevice))},
                                   {"stalled_seconds", std::move(stalls)}};
  return out.dump(2) + "\n";
}

}  // namespace ebb

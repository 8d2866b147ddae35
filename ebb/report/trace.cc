#include "ebb/report/trace.h"

#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ebb {
namespace {

// Tracks are threads of one process to the format; lanes are the first of them.
constexpr int kProcess = 1;
constexpr int kWaiting = static_cast<int>(kLaneCount) + 1;
int track_of(Lane lane) { return static_cast<int>(lane) + 1; }

// As JSON has it, with quotes.
std::string quoted(std::string_view text) {
  using Json = nlohmann::json;
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Written as whole numbers: a double has not all the nanoseconds of a long step.
std::string microseconds(Duration time) {
  return fmt::format("{}.{:03}", time.count() / 1000, time.count() % 1000);
}

class Trace {
 public:
  void name_process(std::string_view name) {
    add(R"("ph": "M", "pid": {}, "name": "process_name", "args": {{"name": {}}})", kProcess,
        quoted(name));
  }
  void name_track(int track, std::string_view name) {
    add(R"("ph": "M", "pid": {}, "tid": {}, "name": "thread_name", "args": {{"name": {}}})",
        kProcess, track, quoted(name));
    // Tracks stand in this order, and not in that of their names.
    add(R"("ph": "M", "pid": {}, "tid": {}, "name": "thread_sort_index", "args": {{"sort_index": {}}})",
        kProcess, track, track);
  }
  void add_event(int track, std::string_view name, Duration start, Duration end,
                 std::string_view args) {
    add(R"("ph": "X", "pid": {}, "tid": {}, "ts": {}, "dur": {}, "name": {}, "args": {{{}}})",
        kProcess, track, microseconds(start), microseconds(end - start), quoted(name), args);
  }
  void add_counter(std::string_view name, Duration time, Bytes bytes) {
    add(R"("ph": "C", "pid": {}, "ts": {}, "name": {}, "args": {{"bytes": {}}})", kProcess,
        microseconds(time), quoted(name), bytes.count);
  }

  [[nodiscard]] std::string text() const {
    return "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n" + events_ + "\n]}\n";
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    events_ += events_.empty() ? "{" : ",\n{";
    fmt::format_to(std::back_inserter(events_), format, std::forward<Args>(args)...);
    events_ += '}';
  }

  std::string events_;
};

std::string args_of(const Graph& graph, const Span& span) {
  std::string args = fmt::format(R"("op": {})", quoted(graph.op(span.node)));
  if (const NodeId original = graph.clone_of(span.node); original.valid()) {
    args += fmt::format(R"(, "again": {})", quoted(graph.name(original)));
  }
  if (span.lane == Lane::kCompute) return args;
  const auto size = graph.size(graph.storage(graph.results(span.node)[0]));
  return size ? args + fmt::format(R"(, "bytes": {})", size->count) : args;
}

std::string args_of(const Graph& graph, const Stall& stall) {
  return fmt::format(R"("for": {}, "cause": {})", quoted(graph.name(stall.awaited)),
                     quoted(name_of(stall.cause)));
}

}  // namespace

std::string to_trace(const Graph& graph, const Timeline& timeline) {
  Trace trace;
  trace.name_process(graph.name());
  for (const Lane lane : {Lane::kCompute, Lane::kToHost, Lane::kToDevice}) {
    trace.name_track(track_of(lane), name_of(lane));
  }
  trace.name_track(kWaiting, "waiting");
  for (const Span& span : timeline.spans) {
    trace.add_event(track_of(span.lane), graph.name(span.node), span.start, span.end,
                    args_of(graph, span));
  }
  for (const Stall& stall : timeline.stalls) {
    trace.add_event(kWaiting, graph.name(stall.node), stall.start, stall.end,
                    args_of(graph, stall));
  }
  for (const MemoryPoint& point : timeline.memory) {
    trace.add_counter("device memory", point.time, point.device);
    trace.add_counter("host memory", point.time, point.host);
  }
  return trace.text();
}

}  // namespace ebb

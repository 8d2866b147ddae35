#include "ebb/report/trace.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ebb/base/file.h"
#include "ebb/graph/parse.h"
#include "ebb/plan/costs.h"
#include "ebb/plan/simulate.h"
#include "ebb/rewrite/lms_rewrite.h"

namespace ebb {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using nlohmann::json;
using testing::HasSubstr;

Graph swapped_graph() {
  return parse_valid(R"(graph step {
  input %x: f32[256]
  %a: f32[256] = my::f(%x)
  %a.host: f32[256] @host = ebb::swap_out(%a)
  %b: f32[256] = my::f(%a)
  %a.back: f32[256] = ebb::swap_in(%a.host) after b
  %c: f32[256] = my::f(%b, %a.back)
  return %c
}
)")
      .value();
}

TEST(Trace, HasATrackForEachLaneOneForStallsAndCountersForMemory) {
  const Graph graph = swapped_graph();
  const auto node = [&](std::string_view name) { return graph.find_node(name); };
  Timeline timeline;
  timeline.spans = {{node("a"), Lane::kCompute, 0ns, 1500ns},
                    {node("b"), Lane::kCompute, 1500ns, 2500ns},
                    {node("c"), Lane::kCompute, 3501ns, 4000ns},
                    {node("a.host"), Lane::kToHost, 1500ns, 2000ns},
                    {node("a.back"), Lane::kToDevice, 2500ns, 3501ns}};
  timeline.stalls = {{node("c"), node("a.back"), StallCause::kArrival, 2500ns, 3501ns}};
  timeline.memory = {{0ns, Bytes{2048}, Bytes{}}, {1500ns, Bytes{3072}, Bytes{1024}}};
  timeline.total = 4000ns;
  const std::string cause(name_of(StallCause::kArrival));
  EXPECT_EQ(to_trace(graph, timeline),
            R"({"displayTimeUnit": "ns", "traceEvents": [
{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "step"}},
{"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "compute"}},
{"ph": "M", "pid": 1, "tid": 1, "name": "thread_sort_index", "args": {"sort_index": 1}},
{"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "to host"}},
{"ph": "M", "pid": 1, "tid": 2, "name": "thread_sort_index", "args": {"sort_index": 2}},
{"ph": "M", "pid": 1, "tid": 3, "name": "thread_name", "args": {"name": "to device"}},
{"ph": "M", "pid": 1, "tid": 3, "name": "thread_sort_index", "args": {"sort_index": 3}},
{"ph": "M", "pid": 1, "tid": 4, "name": "thread_name", "args": {"name": "waiting"}},
{"ph": "M", "pid": 1, "tid": 4, "name": "thread_sort_index", "args": {"sort_index": 4}},
{"ph": "X", "pid": 1, "tid": 1, "ts": 0.000, "dur": 1.500, "name": "a", "args": {"op": "my::f"}},
{"ph": "X", "pid": 1, "tid": 1, "ts": 1.500, "dur": 1.000, "name": "b", "args": {"op": "my::f"}},
{"ph": "X", "pid": 1, "tid": 1, "ts": 3.501, "dur": 0.499, "name": "c", "args": {"op": "my::f"}},
{"ph": "X", "pid": 1, "tid": 2, "ts": 1.500, "dur": 0.500, "name": "a.host", "args": {"op": "ebb::swap_out", "bytes": 1024}},
{"ph": "X", "pid": 1, "tid": 3, "ts": 2.500, "dur": 1.001, "name": "a.back", "args": {"op": "ebb::swap_in", "bytes": 1024}},
{"ph": "X", "pid": 1, "tid": 4, "ts": 2.500, "dur": 1.001, "name": "c", "args": {"for": "a.back", "cause": ")" +
                cause + R"("}},
{"ph": "C", "pid": 1, "ts": 0.000, "name": "device memory", "args": {"bytes": 2048}},
{"ph": "C", "pid": 1, "ts": 0.000, "name": "host memory", "args": {"bytes": 0}},
{"ph": "C", "pid": 1, "ts": 1.500, "name": "device memory", "args": {"bytes": 3072}},
{"ph": "C", "pid": 1, "ts": 1.500, "name": "host memory", "args": {"bytes": 1024}}
]}
)");
}

TEST(Trace, OddNamesComeBackAsTheyWere) {
  const std::string odd = "a\"b\\c{}/µ\n";
  const Graph graph = parse_valid(
                          "graph \"{0}\" {\n  input %x: f32[4]\n"
                          "  %\"a\\\"b\\\\c{}/µ\\n\": f32[4] = \"my::\\\"op\"(%x)\n"
                          "  return %\"a\\\"b\\\\c{}/µ\\n\"\n}\n")
                          .value();
  Timeline timeline;
  timeline.spans = {{graph.find_node(odd), Lane::kCompute, 0ns, 1ns}};
  const json trace = json::parse(to_trace(graph, timeline));
  EXPECT_EQ(trace["traceEvents"].front()["args"]["name"], "{0}");
  EXPECT_EQ(trace["traceEvents"].back()["name"], odd);
  EXPECT_EQ(trace["traceEvents"].back()["args"]["op"], "my::\"op");
}

TEST(Trace, AStepOfYearsKeepsItsNanoseconds) {
  const Graph graph = swapped_graph();
  Timeline timeline;
  timeline.spans = {{graph.find_node("a"), Lane::kCompute, Duration{1}, Duration{(1LL << 61) + 1}}};
  EXPECT_THAT(to_trace(graph, timeline), HasSubstr(R"("ts": 0.001, "dur": 2305843009213693.952)"));
}

TEST(Trace, AnEmptyTimelineIsATraceToo) {
  const Graph graph = parse_valid("graph g {\n  return\n}\n").value();
  EXPECT_EQ(json::parse(to_trace(graph, {}))["traceEvents"].size(), 9);
}

TEST(Trace, OfASimulatedStepHasEverySpanStallAndPointInItsPlace) {
  const std::string path = std::string(EBB_SOURCE_DIR) + "/examples/resnet.ebb";
  const Graph original = parse_valid(read_file(path).value()).value();
  const Graph graph = rewrite_by_lms(original, {})->graph;
  const auto costs = estimate_costs(graph, find_device("h200").value());
  const Timeline timeline = simulate(graph, *costs);
  const std::string text = to_trace(graph, timeline);
  EXPECT_EQ(text, to_trace(graph, timeline));
  std::array<std::size_t, kLaneCount + 2> events{};  // by track
  std::array<double, kLaneCount + 2> last_end{};
  std::size_t points = 0;
  const double total = static_cast<double>(timeline.total.count()) / 1000;
  const json trace = json::parse(text);
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "C") ++points;
    if (event["ph"] != "X") continue;
    const auto track = event["tid"].get<std::size_t>();
    const auto start = event["ts"].get<double>();
    ++events.at(track);
    // Events of a track that overlap would have to lie within each other.
    EXPECT_GE(start, last_end.at(track) - 1e-6) << event;
    last_end.at(track) = start + event["dur"].get<double>();
    EXPECT_LE(last_end.at(track), total + 1e-6);
  }
  EXPECT_EQ(events[1] + events[2] + events[3], timeline.spans.size());
  EXPECT_GT(events[2], 0);
  EXPECT_GT(events[3], 0);
  EXPECT_EQ(events[4], timeline.stalls.size());
  EXPECT_EQ(points, 2 * timeline.memory.size());
}

}  // namespace
}  // namespace ebb

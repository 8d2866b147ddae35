#include "ebb/plan/simulate.h"

#include <algorithm>
#include <deque>
#include <optional>

#include "ebb/graph/dependence.h"
#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/views.h"
#include "ebb/order/arrivals.h"
#include "ebb/order/in_place.h"
#include "ebb/order/liveness.h"
#include "ebb/order/variables.h"
#include "ebb/plan/arena.h"
#include "ebb/plan/link_clock.h"

namespace ebb {
namespace {

std::optional<CopyDirection> direction_of(const Graph& graph, NodeId node) {
  if (!graph.is_op(node)) return std::nullopt;
  if (graph.op(node) == kSwapOut) return CopyDirection::kToHost;
  if (graph.op(node) == kSwapIn) return CopyDirection::kToDevice;
  return std::nullopt;
}

Bytes copied_bytes(const Graph& graph, NodeId copy) {
  return graph.size(graph.storage(graph.results(copy)[0])).value_or(Bytes{});
}

class Simulation {
 public:
  Simulation(const Graph& graph, const StepCosts& costs, Clock clock)
      : graph_(graph),
        costs_(costs),
        enqueues_(is_tensorflow(clock)),
        meets_(clock == Clock::kRendezvous),
        launch_(std::max(costs.launch, Duration{1})),
        dependence_(graph),
        lives_(find_lives(graph)),
        link_(costs.link),
        copies_(graph.node_count(), kNotStarted),
        stands_for_(graph.node_count()),
        missing_(graph.node_count()),
        times_(graph.node_count()),
        held_(graph.node_count()),
        is_requested_(graph.node_count()) {
    for (const NodeId node : graph.order()) {
      if (direction_of(graph, node) != CopyDirection::kToHost) continue;
      missing_[node.index()] = static_cast<std::uint32_t>(dependence_.before(node).size());
    }
    find_releases();
  }

  Timeline run() {
    std::uint32_t position = 0;
    for (const NodeId node : graph_.order()) {
      if (!enqueues_) release_above(position++);
      const auto direction = direction_of(graph_, node);
      if (!direction) {
        execute(node);
      } else if (meets_ && direction == CopyDirection::kToDevice) {
        request(node);
      } else if (!is_started(node)) {  // a swap-in, or a swap-out that waits for nobody
        start_copy(node);
      }
    }
    while (!requested_.empty()) start_next_requested();
    add_copies();
    measure();
    return std::move(timeline_);
  }

 private:
  static constexpr CopyId kNotStarted{CopyDirection::kToHost, 0xFFFFFFFF};
  static constexpr auto kOut = static_cast<std::size_t>(CopyDirection::kToHost);
  static constexpr auto kIn = static_cast<std::size_t>(CopyDirection::kToDevice);
  struct Requested {
    NodeId node;
    Duration asked{};  // the device has done what it waits for
    CopyId behind;     // the copy out behind which the asking stands
  };
  [[nodiscard]] bool is_started(NodeId node) const {
    return !(copies_[node.index()] == kNotStarted);
  }

  // Storages that a swap-out reads, by the line that touches them last.
  void find_releases() {
    for (const NodeId node : graph_.order()) {
      if (direction_of(graph_, node) != CopyDirection::kToHost) continue;
      const StorageId source = graph_.storage(graph_.operands(node)[0].tensor);
      releases_.push_back({lives_[source.index()].last, node});
    }
    std::stable_sort(releases_.begin(), releases_.end(),
                     [](const Release& a, const Release& b) { return a.last < b.last; });
  }

  // Bytes whose last line is above this one may be given away.
  void release_above(std::uint32_t position) {
    while (next_release_ < releases_.size() && releases_[next_release_].last < position) {
      const NodeId node = releases_[next_release_++].node;
      // Engines keep their order: the last one that has to end stands for all.
      if (!last_released_.valid() ||
          copies_[last_released_.index()].index < copies_[node.index()].index) {
        last_released_ = node;
      }
    }
  }

  // The swap-in is asked for when the device has done what it waits for. By then the executor has
  // enqueued all that it can, and the copy waits for that too.
  void request(NodeId node) {
    requested_.push_back({node, std::max(now_, host_), latest_[kOut]});
    is_requested_[node.index()] = true;
    held_[node.index()].start = host_;
  }

  [[nodiscard]] bool is_asked_for(const Requested& it) {
    return it.asked <= host_ && (it.behind == kNotStarted || link_.ends_by(it.behind, host_));
  }

  void start_next_requested() {
    const Requested it = requested_.front();
    requested_.pop_front();
    start_copy(it.node, it.behind);
  }

  void start_requested(NodeId node) {
    if (!is_requested_[node.index()]) return;
    while (!is_started(node)) start_next_requested();
  }

  void execute(NodeId node) {
    while (!requested_.empty() && is_asked_for(requested_.front())) start_next_requested();
    const Duration takes = costs_.compute[node.index()];
    const bool runs = graph_.is_op(node) && !makes_only_views(graph_, node) &&
                      (takes > Duration::zero() || !graph_.runs_on_host(node));
    if (runs) {
      for (const Dependence::Edge& edge : dependence_.before(node)) wait_for(node, edge);
      if (last_released_.valid()) wait(node, last_released_, StallCause::kRelease);
    } else {
      // A view hands on what it waits for, and so does what the host does in no time.
      for (const Dependence::Edge& edge : dependence_.before(node)) hand_on(node, edge.node);
    }
    const Duration begin = runs ? host_ : ready(node);
    held_[node.index()] = {begin, runs ? begin + launch_ : begin};
    if (runs && enqueues_) {
      now_ = std::max(now_, host_);
      host_ += launch_;
    }
    times_[node.index()] = {now_, now_ + takes};
    now_ += takes;
    if (takes > Duration::zero())
      timeline_.spans.push_back({node, Lane::kCompute, now_ - takes, now_});
    start_swap_outs_after(node);
  }

  // What the host does in no time it does as soon as it can, wherever it stands.
  [[nodiscard]] Duration ready(NodeId node) const {
    Duration ready{};
    for (const Dependence::Edge& edge : dependence_.before(node)) {
      const bool is_copied =
          is_started(edge.node) || stands_for_[edge.node.index()] != LatestCopies{};
      ready = std::max(ready, is_copied ? host_ : held_[edge.node.index()].end);
    }
    return std::min(ready, host_);
  }

  // Those that waited for this one last.
  void start_swap_outs_after(NodeId node) {
    for (const Dependence::Edge& edge : dependence_.after(node)) {
      std::uint32_t& missing = missing_[edge.node.index()];
      if (missing == 0) continue;
      --missing;
      if (missing == 0) start_copy(edge.node);
    }
  }

  void hand_on(NodeId node, NodeId before) {
    start_requested(before);
    LatestCopies& copies = stands_for_[node.index()];
    const auto take = [&](NodeId copy) {
      if (!copy.valid()) return;
      NodeId& latest = copies[static_cast<std::size_t>(copies_[copy.index()].direction)];
      if (!latest.valid() || copies_[latest.index()].index < copies_[copy.index()].index) {
        latest = copy;
      }
    };
    if (is_started(before)) take(before);
    for (const NodeId copy : stands_for_[before.index()]) take(copy);
  }

  void wait_for(NodeId node, const Dependence::Edge& edge) {
    const StallCause cause = edge.reason == Dependence::Reason::kReadAfterWrite
                                 ? StallCause::kArrival
                                 : StallCause::kControl;
    start_requested(edge.node);
    if (is_started(edge.node)) wait(node, edge.node, cause);
    for (const NodeId copy : stands_for_[edge.node.index()]) {
      if (copy.valid()) wait(node, copy, cause);
    }
  }

  void wait(NodeId node, NodeId copy, StallCause cause) {
    const CopyId waited = copies_[copy.index()];
    const bool meets_back = meets_ && waited.direction == CopyDirection::kToHost;
    const bool is_behind_ins = meets_back && !(latest_[kIn] == kNotStarted);
    const Duration dry = std::max(now_, host_);
    if (meets_ &&
        !(link_.ends_by(waited, dry) && (!is_behind_ins || link_.ends_by(latest_[kIn], dry)))) {
      // Until then the device runs dry, and whatever was requested is asked for.
      while (!requested_.empty()) start_next_requested();
    }
    Duration end = link_.end_of(waited);
    if (meets_back) end = std::max(end, now_);
    if (meets_back && !(latest_[kIn] == kNotStarted))
      end = std::max(end, link_.end_of(latest_[kIn]));
    host_ = std::max(host_, end);
    if (end <= now_) return;
    timeline_.stalls.push_back({node, copy, cause, now_, end});
    timeline_.stalled[static_cast<std::size_t>(cause)] += end - now_;
    now_ = end;
  }

  // `behind`: a copy out that ends before it is asked for.
  void start_copy(NodeId node, CopyId behind = kNotStarted) {
    std::vector<CopyId> after;
    if (!(behind == kNotStarted)) after.push_back(behind);
    for (const Dependence::Edge& edge : dependence_.before(node)) {
      start_requested(edge.node);
      if (is_started(edge.node)) after.push_back(copies_[edge.node.index()]);
      for (const NodeId copy : stands_for_[edge.node.index()]) {
        if (copy.valid()) after.push_back(copies_[copy.index()]);
      }
    }
    if (is_started(node)) return;  // by one of these
    const CopyDirection direction =
        graph_.op(node) == kSwapOut ? CopyDirection::kToHost : CopyDirection::kToDevice;
    // What comes in takes bytes that others have left.
    if (direction == CopyDirection::kToDevice && last_released_.valid()) {
      after.push_back(copies_[last_released_.index()]);
    }
    if (!is_requested_[node.index()]) held_[node.index()].start = host_;
    copies_[node.index()] =
        link_.add(direction, copied_bytes(graph_, node), std::max(now_, host_), after);
    latest_[static_cast<std::size_t>(direction)] = copies_[node.index()];
    started_.push_back({node, std::move(after)});
    start_swap_outs_after(node);
  }

  void add_copies() {
    timeline_.total = now_;
    for (const Started& started : started_) {
      const NodeId node = started.node;
      const CopyId copy = copies_[node.index()];
      const CopyTimes times = link_.times_of(copy);
      times_[node.index()] = times;
      held_[node.index()].end = times.end;
      // The executor starts it when what it comes after has ended, and then it gets its bytes.
      for (const CopyId before : started.after) {
        held_[node.index()].start = std::max(held_[node.index()].start, link_.end_of(before));
      }
      const Lane lane = copy.direction == CopyDirection::kToHost ? Lane::kToHost : Lane::kToDevice;
      timeline_.spans.push_back({node, lane, times.start, times.end});
      timeline_.total = std::max(timeline_.total, times.end);
    }
    for (const Span& span : timeline_.spans) {
      timeline_.busy[static_cast<std::size_t>(span.lane)] += span.end - span.start;
    }
  }

  void measure();

  struct Release {
    std::uint32_t last = 0;
    NodeId node;
  };

  const Graph& graph_;
  const StepCosts& costs_;
  bool enqueues_;  // instead of running line by line
  bool meets_;     // and edges between device and host wait for streams
  Duration launch_;
  Dependence dependence_;
  std::vector<Life> lives_;
  LinkClock link_;
  Duration now_{};              // when the compute stream has done what it was given
  Duration host_{};             // when the host enqueues the next line
  std::vector<CopyId> copies_;  // by node; kNotStarted for others
  std::array<CopyId, 2> latest_{kNotStarted, kNotStarted};  // by direction, the last one started
  // Engines keep their order, so who waits for the latest copy each way waits for all.
  using LatestCopies = std::array<NodeId, 2>;
  std::vector<LatestCopies> stands_for_;  // by node: what readers of a view wait for
  std::vector<std::uint32_t> missing_;    // by node: how many a swap-out still waits for
  std::vector<CopyTimes> times_;          // by node
  std::vector<CopyTimes> held_;           // by node, for who enqueues: from when on it has
                                          // its bytes, and until when it needs its operands
  struct Started {
    NodeId node;
    std::vector<CopyId> after;
  };
  std::vector<Started> started_;
  std::deque<Requested> requested_;  // swap-ins that TensorFlow has not asked for yet
  std::vector<bool> is_requested_;   // by node: it is one, or was
  std::vector<Release> releases_;
  std::size_t next_release_ = 0;
  NodeId last_released_;
  Timeline timeline_;
};

// Changes of memory in the order of time; at one time what leaves goes first.
struct Change {
  Duration time{};
  Bytes device;
  Bytes host;
};

void Simulation::measure() {
  std::vector<Change> changes;
  const auto hold = [&](Bytes size, Residence side, Duration from, Duration to) {
    if (size == Bytes{} || to <= from) return;
    const bool on_host = side == Residence::kHost;
    const Bytes none{};
    changes.push_back({from, on_host ? none : size, on_host ? size : none});
    changes.push_back({to, Bytes{} - (on_host ? none : size), Bytes{} - (on_host ? size : none)});
  };
  std::vector<CopyTimes> spans(graph_.storage_count(), {Duration::max(), Duration::zero()});
  const auto touch = [&](TensorId tensor, const CopyTimes& times) {
    CopyTimes& span = spans[graph_.storage(tensor).index()];
    span.start = std::min(span.start, times.start);
    span.end = std::max(span.end, times.end);
  };
  for (const NodeId node : graph_.order()) {
    if (makes_only_views(graph_, node)) continue;
    const CopyTimes& times = enqueues_ ? held_[node.index()] : times_[node.index()];
    for (const Operand& operand : graph_.operands(node)) {
      if (operand.tensor.valid()) touch(operand.tensor, times);
    }
    for (const TensorId result : graph_.results(node)) touch(result, times);
    if (!graph_.is_op(node)) continue;
    const Residence side = graph_.runs_on_host(node) ? Residence::kHost : Residence::kDevice;
    hold(costs_.workspace[node.index()], side, times.start, times.end);
  }
  for (const TensorId output : graph_.outputs()) {
    touch(output, {timeline_.total, timeline_.total});
  }
  // A result that takes over an operand's bytes has them from then on.
  const ArenaNeeds needs = needs_of(graph_, costs_.workspace);
  const auto takes_over = find_takeovers(graph_, lives_, needs.storages, needs.can_be_placed);
  for (const StorageId storage : graph_.storages()) {
    const StorageId taken = takes_over[storage.index()];
    if (taken.valid()) spans[taken.index()].end = spans[storage.index()].start;
  }
  const Variables variables = find_variables(graph_);
  hold(variables.device_bytes, Residence::kDevice, Duration::zero(), timeline_.total);
  const auto times_at = [&](std::uint32_t line) {
    const NodeId node = graph_.order()[line];
    return enqueues_ ? held_[node.index()] : times_[node.index()];
  };
  for (const Arrival& arrival : find_arrivals(graph_)) {
    const bool is_given = graph_.origin(arrival.storage) != NodeKind::kOp;
    hold(arrival.size, Residence::kDevice,
         is_given ? Duration::zero() : times_at(arrival.first).end, times_at(arrival.last).end);
  }
  for (const StorageId storage : graph_.storages()) {
    const NodeKind origin = graph_.origin(storage);
    const Residence side = graph_.residence(storage);
    const NodeId maker = graph_.producer(graph_.root(storage));
    if (enqueues_ && side == Residence::kHost && graph_.op(maker) != kSwapOut) continue;
    CopyTimes& span = spans[storage.index()];
    if (origin != NodeKind::kOp) span.start = Duration::zero();
    if (origin == NodeKind::kParam || origin == NodeKind::kConst) span.end = timeline_.total;
    hold(variables.held(graph_, storage).value_or(Bytes{}), side, span.start, span.end);
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    if (a.time != b.time) return a.time < b.time;
    return a.device + a.host < b.device + b.host;
  });
  MemoryPoint held;
  for (const Change& change : changes) {
    if (change.time != held.time && (held != MemoryPoint{})) timeline_.memory.push_back(held);
    held = {change.time, held.device + change.device, held.host + change.host};
    timeline_.device_peak = std::max(timeline_.device_peak, held.device);
    timeline_.host_peak = std::max(timeline_.host_peak, held.host);
  }
  timeline_.memory.push_back(held);
}

}  // namespace

std::string_view name_of(Lane lane) {
  switch (lane) {
    case Lane::kCompute:
      return "compute";
    case Lane::kToHost:
      return "to host";
    case Lane::kToDevice:
      return "to device";
  }
  return "?";
}

std::string_view name_of(StallCause cause) {
  switch (cause) {
    case StallCause::kArrival:
      return "for a swap-in";
    case StallCause::kRelease:
      return "for bytes on their way out";
    case StallCause::kControl:
      return "for a copy it was told to wait for";
  }
  return "?";
}

Timeline simulate(const Graph& graph, const StepCosts& costs, Clock clock) {
  return Simulation(graph, costs, clock).run();
}

}  // namespace ebb

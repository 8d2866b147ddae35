#include "ebb/torch/step.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "ebb/exec/measurement_cache.h"
#include "ebb/exec/plan_cache.h"
#include "ebb/exec/profiler.h"
#include "ebb/graph/graph_check.h"
#include "ebb/graph/print.h"
#include "ebb/order/liveness.h"
#include "ebb/plan/budget.h"
#include "ebb/plan/restarts.h"
#include "ebb/plan/splits.h"
#include "ebb/report/plan_summary.h"
#include "ebb/torch/environment.h"
#include "ebb/torch/gpu.h"
#include "ebb/torch/host_slab.h"

namespace ebb::torch {
namespace {

constexpr std::size_t kCheckedInstructions = 2000;
constexpr int kMostAttempts = 10;

StridesByName find_other_strides(const Graph& graph, std::span<const Recipe> recipes) {
  StridesByName found;
  for (const NodeId node : graph.nodes()) {
    for (const OtherStrides& other : recipes[node.index()].otherwise) {
      const TensorId result = graph.results(node)[static_cast<std::uint32_t>(other.result)];
      found.emplace(graph.name(result), other.strides);
    }
  }
  return found;
}

// What is read in another order may be rounded in another way.
std::string note_other_strides(const Graph& graph, const StridesByName& strides) {
  const bool is_one = strides.size() == 1;
  const auto& [name, lies] = *strides.begin();
  return fmt::format(
      "{} result{} otherwise in memory than PyTorch announced when the step was captured, first "
      "with strides [{}] '{}': what is computed from {} may be rounded otherwise than in an eager "
      "step. A step that ebb.torch.compile has captured has them as they lie (step.captured); "
      "otherwise let the operator announce what it makes (register_fake)",
      strides.size(), is_one ? " lies" : "s lie", fmt::join(lies, ","),
      print(graph, graph.producer(graph.find_tensor(name))), is_one ? "it" : "them");
}

// Adds the time until its end to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(Duration& sum) : sum_(sum) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { sum_ += std::chrono::duration_cast<Duration>(Clock::now() - begin_); }

 private:
  using Clock = std::chrono::steady_clock;
  Duration& sum_;
  Clock::time_point begin_ = Clock::now();
};

std::function<void(std::size_t, std::size_t)> saying(const StepOptions& options,
                                                     std::string_view what) {
  if (!options.progress) return nullptr;
  return [&options, what](std::size_t done, std::size_t total) {
    options.progress(what, done, total);
  };
}

Result<c10::Device> parse_device(const std::string& name) {
  const auto refuse = [&] {
    return fail(ErrorKind::kUsage, fmt::format("steps run on 'cpu', 'cuda' or 'cuda:1', and not "
                                               "on '{}'",
                                               printable(name)));
  };
  try {
    c10::Device device(name);
    if (device.is_cpu() && device.has_index() && device.index() != 0) return refuse();
    if (device.is_cpu()) return c10::Device(c10::DeviceType::CPU);
    if (!device.is_cuda()) return refuse();
    if (!device.has_index()) device.set_index(0);
    return device;
  } catch (const c10::Error&) {
    return refuse();
  }
}

}  // namespace

Status check_device(const std::string& name) {
  const auto device = parse_device(name);
  if (!device) return fail(device.error());
  return device->is_cpu() ? Status() : check_gpu(device->index());
}

Step::Step(c10::Device device, std::unique_ptr<exec::Backend> backend, exec::Cache cache)
    : device_(device), backend_(std::move(backend)), kernels_(device), cache_(std::move(cache)) {}

Step::~Step() {
  // Nothing may be at work in what is given back now; what went wrong there has been said.
  if (backend_ == nullptr) return;
  [[maybe_unused]] const Status settled = backend_->lanes().settle();
}

Result<std::unique_ptr<Step>> Step::make(Graph graph, const StepOptions& options) {
  auto step = open(std::move(graph), options);
  if (!step) return step;
  const OnDevice on((*step)->device_, *(*step)->backend_);
  if (Status ok = (*step)->allocate(options); !ok) return fail(ok.error());
  return step;
}

Result<std::unique_ptr<const Step>> Step::plan(Graph graph, const StepOptions& options) {
  if (const auto budget = parse_bytes(options.budget)) {
    const Graph split = with_splits(graph, find_splittable(graph));  // as plans may have it
    const Floor floor = find_floor(split);
    if (floor.bytes > *budget) {
      return fail(ErrorKind::kInfeasible,
                  fmt::format("no plan fits into {}: '{}' alone needs {}", to_human(*budget),
                              split.name(floor.node), to_human(floor.bytes)));
    }
  }
  auto step = open(std::move(graph), options);
  if (!step) return fail(step.error());
  return std::unique_ptr<const Step>(*std::move(step));
}

// Everything up to where memory is needed.
Result<std::unique_ptr<Step>> Step::open(Graph graph, const StepOptions& options) {
  const auto device = parse_device(options.device);
  if (!device) return fail(device.error());
  std::unique_ptr<exec::Backend> backend;
  if (device->is_cpu()) {
    backend = exec::make_cpu_backend(options.lanes);
  } else {
    auto gpu = make_gpu_backend(device->index());
    if (!gpu) return fail(gpu.error());
    backend = *std::move(gpu);
  }
  std::unique_ptr<Step> step(new Step(*device, std::move(backend), exec::Cache(options.cache)));
  if (Status ok = step->prepare(std::move(graph), options); !ok) return fail(ok.error());
  return step;
}

Status Step::prepare(Graph graph, const StepOptions& options) {
  auto known = [&] {
    const OnDevice on(device_, *backend_);
    return exec::load_measurements(cache_, environment_of(device_, *backend_));
  }();
  if (!known.note.empty()) notes_.push_back(std::move(known.note));
  measured_ = std::move(known.file);
  exec::Measurements none;
  exec::MeasuredOnce in_process(kernels_, options.known != nullptr ? *options.known : none);
  exec::MeasuredOnce kernels(in_process, measured_.operations);
  // What was measured is kept where nothing fits, too, and after Ctrl-C: the next try is quicker.
  try {
    Status ok = measure(std::move(graph), kernels, options);
    if (ok) {
      const OnDevice on(device_, *backend_);
      ok = fit(kernels, options);
    }
    exec::save_measurements(cache_, measured_);
    return ok;
  } catch (...) {
    exec::save_measurements(cache_, measured_);
    throw;
  }
}

// The graph, or the one that was captured anew as its results lie. That changes what is made of
// them, so there may be others then, further down. Whoever captures says when it is enough.
Status Step::measure(Graph graph, exec::Kernels& kernels, const StepOptions& options) {
  while (true) {
    auto lowered = [&] {
      const OnDevice on(device_, *backend_);
      return lower_graph(std::move(graph), kernels, saying(options, "measuring operations"));
    }();
    if (!lowered) return fail(std::move(lowered.error()));
    now_ = *std::move(lowered);
    const StridesByName otherwise = find_other_strides(now_->graph, now_->recipes);
    if (otherwise.empty()) return {};
    std::optional<Graph> anew;
    if (options.capture_anew) anew = options.capture_anew(otherwise);
    if (!anew) {
      notes_.push_back(note_other_strides(now_->graph, otherwise));
      return {};
    }
    graph = *std::move(anew);
  }
}

Result<std::unique_ptr<const Step::Lowered>> Step::lower_graph(
    Graph graph, exec::Kernels& kernels,
    const std::function<void(std::size_t, std::size_t)>& progress) {
  const Stopwatch watch(preparation_.measuring);
  auto lowered = std::make_unique<Lowered>();
  lowered->graph = std::move(graph);
  lowered->kernels = std::make_unique<TorchKernels>(device_);
  auto recipes = exec::measure_all(lowered->graph, kernels, progress);
  if (!recipes) return fail(recipes.error());
  lowered->recipes = *std::move(recipes);
  const LowerOptions lowering{.alignment = backend_->alignment(), .budget = budget_};
  auto program = lower(lowered->graph, lowered->recipes, lowering);
  if (!program) return fail(program.error());
  lowered->program = *std::move(program);
  // By brute force, so only where that is quick; tests do it for all of theirs.
  if (lowered->program.instructions.size() <= kCheckedInstructions) {
    const Status ok = check_program(lowered->graph, lowered->recipes, lowered->program, lowering);
    EBB_CHECK_ON(lowered->graph, ok.has_value(), "a wrong program: {}", ok.error().message);
  }
  const Status ordered = check_races(lowered->graph, lowered->program);
  EBB_CHECK_ON(lowered->graph, ordered.has_value(), "a wrong program: {}", ordered.error().message);
  return lowered;
}

Status Step::set_budget(const StepOptions& options) {
  unconstrained_ = program().arena_size;
  if (options.shares_arena_of != nullptr) {
    budget_ = options.shares_arena_of->arena_->size();
    return {};
  }
  if (options.budget == "auto") {
    // Some of what is free now is needed for what libraries keep, and for other programs. What
    // measuring has left in PyTorch's allocator is free, too.
    if (!device_.is_cpu()) release_gpu_cache();
    const auto free = backend_->free_memory();
    if (!free) return fail(free.error());
    budget_ = std::min(unconstrained_, Bytes{free->count / 10 * 9});
    return {};
  }
  const auto budget = parse_budget(options.budget, unconstrained_);
  if (!budget) return fail(budget.error());
  budget_ = *budget;
  return {};
}

Status Step::fit(exec::Kernels& kernels, const StepOptions& options) {
  if (Status ok = set_budget(options); !ok) return ok;
  std::optional<Bytes> host_budget;
  if (!options.host_budget.empty()) {
    const auto host = parse_bytes(options.host_budget);
    if (!host) return fail(ErrorKind::kUsage, "the host budget: " + host.error().message);
    host_budget = *host;
  }
  if (program().bound <= budget_ && budget_ < program().arena_size) {
    // Laid out when no budget was known; with an aim there may be room.
    auto aimed = lower_graph(graph(), kernels, nullptr);
    if (!aimed) return fail(std::move(aimed.error()));
    if ((*aimed)->program.arena_size <= budget_) now_ = *std::move(aimed);
  }
  if (program().arena_size <= budget_) return {};
  if (!options.may_plan) {
    return fail(ErrorKind::kInfeasible,
                fmt::format("the step as it is needs {}, and the budget is {}; give {}, or let it "
                            "be planned",
                            to_human(program().arena_size), to_human(budget_),
                            to_text(program().arena_size)));
  }
  if (!device_.is_cpu()) release_gpu_cache();
  Result<Profile> profile = [&] {
    const Stopwatch watch(preparation_.timing);
    return time_calls(graph(), recipes(), kernels, saying(options, "timing operations"));
  }();
  if (!profile) return fail(profile.error());
  if (!device_.is_cpu()) release_gpu_cache();
  auto device = backend_->describe(measured_.link);
  if (!device) return fail(device.error());
  if (!device_.is_cpu()) measured_.link = device->link;
  device->alignment = backend_->alignment();

  PlanOptions planning{.budget = budget_};
  // To move less is not worth a copy over a link; and what a GPU's operators have on the host
  // (kernels.h) must stay.
  if (!device_.is_cpu()) planning.min_bytes = Bytes{4096};
  planning.profile = &*profile;
  planning.may_swap = options.may_swap;
  planning.may_recompute = options.may_recompute;
  planning.evaluations = options.evaluations;
  planning.host_budget = host_budget;
  if (host_budget && options.shares_arena_of != nullptr) {
    planning.host_budget = std::min(*host_budget, options.shares_arena_of->host_->size());
  }
  if (options.progress) {
    planning.progress = [&](std::uint32_t done, std::uint32_t of, Duration /*best*/) {
      options.progress("planning", done, of);
    };
  }
  auto fitting = plan_to_fit(graph(), *device, planning, kernels, options.explain);
  if (!fitting) return fail(std::move(fitting.error()));
  const std::unique_ptr<const Lowered> original = std::exchange(now_, std::move(fitting->lowered));
  planned_ = std::move(fitting->planned);
  preparation_.plan_was_known = fitting->was_known;
  planning.profile = nullptr;
  planning.progress = nullptr;
  trial_ = std::make_unique<Trial>(
      original->graph, original->recipes, *device, planning,
      exec::Profiler(graph(), program(), recipes(), {.alignment = backend_->alignment()}));
  return {};
}

// Of all that there is in the step and all that plans may make of it.
Result<Profile> Step::time_calls(const Graph& graph, std::span<const Recipe> recipes,
                                 exec::Kernels& kernels,
                                 const std::function<void(std::size_t, std::size_t)>& progress) {
  const Bytes alignment = backend_->alignment();
  auto timed = exec::time_all(graph, kernels, recipes, alignment, progress);
  if (!timed) return timed;
  return exec::with_split_calls(*timed, graph, kernels, {.alignment = alignment});
}

Result<Step::Fitting> Step::plan_to_fit(const Graph& original, const Device& device,
                                        PlanOptions planning, exec::Kernels& kernels,
                                        const std::function<void(std::string_view)>& explain) {
  const int seeds = seeds_for_step(device_.is_cpu(), planning);
  // What a kernel asks for may be a little more than its types say: then, once more with less, and
  // by more each time, because what offsets need jumps up and down a little from plan to plan.
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    auto once = [&] {
      const Stopwatch watch(preparation_.planning);
      return exec::plan_once(cache_, original, device, planning, seeds);
    }();
    if (!once) return fail(once.error());
    if (!once->note.empty()) notes_.push_back(std::move(once->note));
    Planned& planned = once->planned;
    if (planned.infeasible) {
      if (explain) explain(explain_infeasible(planned, planning));
      return fail(ErrorKind::kInfeasible, say_infeasible(planned, planning, unconstrained_));
    }
    auto lowered = lower_graph(planned.plan->graph, kernels, nullptr);
    if (!lowered) return fail(std::move(lowered.error()));
    const Bytes needed = (*lowered)->program.arena_size;
    if (needed <= budget_) {
      return Fitting{.planned = std::make_unique<const Planned>(std::move(planned)),
                     .lowered = *std::move(lowered),
                     .was_known = once->was_known};
    }
    const Bytes over = needed - budget_;
    planning.budget -= Bytes{std::max(over.count, budget_.count / 4096) << (attempt / 2)};
    if (planning.budget.count <= 0) break;
  }
  return fail(ErrorKind::kInfeasible,
              fmt::format("no plan fits into {}: kernels ask for more than their results need",
                          to_human(budget_)));
}

Status Step::allocate(const StepOptions& options) {
  const Stopwatch watch(preparation_.allocating);
  if (!device_.is_cpu()) release_gpu_cache();
  if (options.shares_arena_of != nullptr) {
    const Step& other = *options.shares_arena_of;
    if (other.program().state_size != program().state_size) {
      return fail(ErrorKind::kUsage, "steps that share an arena need the same state");
    }
    arena_ = other.arena_;
  } else {
    // A step that was planned has the whole budget: plans of other batches, and later ones, fit
    // too.
    auto arena = backend_->make_arena(planned_ ? budget_ : program().arena_size);
    if (!arena) {
      arena.error().message +=
          "; give a smaller budget ('auto' is what is free), or end what else uses the memory";
      return fail(std::move(arena.error()));
    }
    arena_ = std::make_shared<const exec::Arena>(*std::move(arena));
  }
  if (Status ok = allocate_host(options); !ok) return ok;
  auto executor = bind(*now_, *host_);
  if (!executor) return fail(std::move(executor.error()));
  executor_ = *std::move(executor);
  if (backend_->lanes().can_keep() && can_be_kept()) keeping_ = Keeping::kNotYet;
  return {};
}

Status Step::allocate_host(const StepOptions& options) {
  if (options.shares_arena_of != nullptr &&
      options.shares_arena_of->host_->size() >= program().host_size) {
    host_ = options.shares_arena_of->host_;
    return {};
  }
  exec::TellPieces tell;
  if (program().host_size.count > 0) tell = saying(options, "allocating GiB of host memory");
  if (tell) tell(0, 0);
  // On the CPU the arena is host memory too, and a page of it is taken when it is first touched.
  const bool is_on_host = device_.is_cpu() && options.shares_arena_of == nullptr;
  const Bytes reserved = is_on_host ? arena_->size() : Bytes{};
  auto host = make_host_slab(*backend_, program().host_size, reserved, tell);
  if (!host) return fail(std::move(host.error()));
  host_ = *std::move(host);
  return {};
}

Result<std::unique_ptr<exec::Executor>> Step::bind(const Lowered& lowered,
                                                   const exec::Arena& host) {
  auto executor = exec::Executor::make(lowered.graph, lowered.program, *lowered.kernels,
                                       {*arena_, host, backend_->lanes()});
  if (!executor) return fail(executor.error());
  return std::make_unique<exec::Executor>(*std::move(executor));
}

Result<Profile> Step::with_split_calls(const Profile& profile) {
  const OnDevice on(device_, *backend_);
  exec::MeasuredOnce kernels(kernels_, measured_.operations);
  auto all =
      exec::with_split_calls(profile, graph(), kernels, {.alignment = backend_->alignment()});
  exec::save_measurements(cache_, measured_);
  return all;
}

Status Step::settle() { return backend_->lanes().settle(); }

Status Step::write(TensorId tensor, std::span<const std::byte> bytes) const {
  return backend_->copy(place(tensor), bytes.data(), bytes.size());
}

Status Step::read(TensorId tensor, std::span<std::byte> bytes) const {
  return backend_->copy(bytes.data(), place(tensor), bytes.size());
}

}  // namespace ebb::torch

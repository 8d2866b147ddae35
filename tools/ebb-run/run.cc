#include "run.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ebb/base/file.h"
#include "ebb/exec/measured_timeline.h"
#include "ebb/exec/profiler.h"
#include "ebb/graph/text_names.h"
#include "ebb/plan/profile.h"
#include "ebb/report/plan_summary.h"
#include "ebb/report/trace.h"
#include "ebb/torch/step.h"
#include "ebb/torch/version.h"
#include "interrupt.h"
#include "returned.h"
#include "scalar_values.h"
#include "state_file.h"
#include "tools/ebb/input.h"
#include "tools/ebb/progress.h"
#include "torch_context.h"

namespace ebb::tool {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// One step that was done.
struct StepRecord {
  std::vector<std::optional<ReturnedNumber>> returned;  // by output of the graph
  Duration duration{};
};

Result<std::string> state_path(const RunOptions& options) {
  if (!options.state.empty()) return options.state;
  if (options.step == "-") {
    return fail(ErrorKind::kUsage,
                "a step from standard input has no file beside it: --state FILE.safetensors");
  }
  const auto beside = std::filesystem::path(options.step).replace_extension(".safetensors");
  std::error_code ignored;
  if (std::filesystem::status(beside, ignored).type() == std::filesystem::file_type::not_found) {
    return fail(ErrorKind::kBadInput,
                fmt::format("there is no {} beside the step; a rewritten step begins with the "
                            "state of the original: --state ORIGINAL.safetensors",
                            printable(beside.string())));
  }
  return beside.string();
}

// Whether the file could be written now: better known before the run than after it.
Status check_output(const std::string& path) {
  const auto refuse = [&](int cause) {
    return fail(ErrorKind::kBadInput,
                fmt::format("cannot write {}: {}", printable(path), std::strerror(cause)));
  };
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(status)) return refuse(EISDIR);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) return {};
  // It will be put beside what is there, and renamed.
  const auto folder = std::filesystem::path(path).parent_path();
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK) != 0) return refuse(errno);
  return {};
}

// Each a file of its own, and none that is read. The state alone may be replaced, by what became of
// it.
Status check_outputs(const RunOptions& options, const std::string& state) {
  const std::array outputs = {options.output, options.profile, options.trace};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string& file = outputs[i];
    if (file.empty()) continue;
    if (is_same_file(file, options.step) || (i != 0 && is_same_file(file, state))) {
      return fail(ErrorKind::kUsage,
                  fmt::format("'{}' would be overwritten, which is read as well; name another file",
                              printable(file)));
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (std::filesystem::path(file).lexically_normal() !=
          std::filesystem::path(outputs[j]).lexically_normal()) {
        continue;
      }
      return fail(ErrorKind::kUsage,
                  fmt::format("'{}' is to be two files at once; give two names", printable(file)));
    }
    if (i != 0) {
      if (Status ok = check_is_no_state(file); !ok) return ok;
    }
    if (Status ok = check_output(file); !ok) return ok;
  }
  return {};
}

void print_notes(torch::Step& step) {
  for (const std::string& note : step.take_notes()) {
    write_to_stderr(fmt::format("ebb: note: {}\n", note));
  }
}

Result<std::unique_ptr<torch::Step>> make_step(Graph graph, const RunOptions& run) {
  std::string explanation;
  auto step = [&] {
    Progress progress("measuring operations");
    torch::StepOptions options;
    options.device = run.device;
    options.budget = run.budget;
    options.host_budget = run.host_budget;
    options.may_plan = !run.as_is;
    if (!run.cache) options.cache.clear();
    options.explain = [&](std::string_view lines) { explanation = lines; };
    options.progress = [&](std::string_view what, std::size_t done, std::size_t total) {
      progress.update(total == 0 ? std::string(what)
                                 : fmt::format("{}, {} of {}", what, done, total));
    };
    return torch::Step::make(std::move(graph), options);
  }();
  write_to_stderr(explanation);
  if (step) print_notes(**step);
  return step;
}

void print_notes(const StateFile& state, const std::string& path) {
  if (state.unused().empty()) return;
  const std::size_t more = state.unused().size() - 1;
  write_to_stderr(fmt::format("ebb: {}: note: the step does not use '{}'{}\n", shown_name(path),
                              printable(state.unused()[0]),
                              more == 0 ? "" : fmt::format(", nor {} more of the file", more)));
}

std::string head_line(const torch::Step& step) {
  const Program& program = step.program();
  std::string line = fmt::format("arena {}, of it state {}; bound {}", to_human(program.arena_size),
                                 to_human(program.state_size), to_human(program.bound));
  if (program.host_size.count > 0) line += fmt::format("; host {}", to_human(program.host_size));
  line += "\n";
  if (step.planned() != nullptr) {
    const PlanCounts counts = count_moves(*step.planned()->plan);
    line += fmt::format("budget {} of {}; {} swapped, {} recomputed; predicted {} a step\n",
                        to_human(step.budget()), to_human(step.unconstrained()), counts.swapped,
                        counts.recomputed, to_human(step.planned()->plan->step()));
  }
  return line;
}

std::string step_line(const Graph& graph, std::size_t number, const StepRecord& record) {
  std::string line = fmt::format("step {}: ", number);
  for (std::size_t i = 0; i < record.returned.size(); ++i) {
    const auto& value = record.returned[i];
    if (!value) continue;
    line += fmt::format("%{} = {}, ", spelled(graph.name(graph.outputs()[i])), to_text(*value));
  }
  return line + to_human(record.duration) + "\n";
}

std::string json_text(const torch::Step& step, const std::vector<StepRecord>& records) {
  const Program& program = step.program();
  Json steps = Json::array();
  for (const StepRecord& record : records) {
    Json outputs = Json::array();
    for (const auto& number : record.returned) {
      outputs.push_back(number ? to_json(*number) : Json());
    }
    steps.push_back(Json{{"outputs", std::move(outputs)},
                         {"seconds", std::chrono::duration<double>(record.duration).count()}});
  }
  Json out{{"arena_bytes", program.arena_size.count},
           {"state_bytes", program.state_size.count},
           {"bound_bytes", program.bound.count},
           {"host_bytes", program.host_size.count}};
  if (step.planned() != nullptr) {
    out["budget_bytes"] = step.budget().count;
    out["plan"] = Json::parse(to_json(*step.planned()));
  }
  out["steps"] = std::move(steps);
  return out.dump(2) + "\n";
}

// The run itself: a step with its state in place.
class Run {
 public:
  // The profiler may be null.
  Run(torch::Step& step, const StateFile& state, const ScalarValues& scalars,
      exec::Profiler* profiler, bool is_timed)
      : step_(step), state_(state), scalars_(scalars), profiler_(profiler), is_timed_(is_timed) {}

  // Does one more step; nullptr when Ctrl-C came before it had changed anything.
  [[nodiscard]] Result<const StepRecord*> do_step() {
    const auto begin = Clock::now();
    if (Status ok = state_.fill_inputs(step_); !ok) return fail(ok.error());
    bool stopped = false;
    std::optional<Progress> progress;  // of planning again, where that follows
    const Status ok = step_.run(
        records_.empty() ? scalars_.first : scalars_.later,
        [&] { return stopped = was_interrupted(); }, is_timed_,
        [&](std::string_view what, std::size_t done, std::size_t total) {
          if (!progress) progress.emplace(std::string(what));
          progress->update(fmt::format("{}, {} of {}", what, done, total));
        });
    if (stopped) return nullptr;
    if (!ok) return fail(ok.error());
    if (Status settled = step_.settle(); !settled) return fail(settled.error());
    StepRecord& record = records_.emplace_back();
    record.duration = std::chrono::duration_cast<Duration>(Clock::now() - begin);
    if (is_timed_) {
      auto times = step_.times();
      if (!times) return fail(times.error());
      times_ = *std::move(times);
    }
    if (profiler_ != nullptr) profiler_->add_step(times_);
    for (const TensorId tensor : step_.graph().outputs()) {
      record.returned.push_back(returned_number(step_, tensor));
    }
    return &record;
  }

  [[nodiscard]] const std::vector<StepRecord>& records() const { return records_; }
  // Of the last step, where it was timed.
  [[nodiscard]] const std::vector<exec::Interval>& times() const { return times_; }

 private:
  torch::Step& step_;
  const StateFile& state_;
  const ScalarValues& scalars_;
  exec::Profiler* profiler_;
  bool is_timed_;
  std::vector<exec::Interval> times_;  // of the step at hand, by instruction
  std::vector<StepRecord> records_;
};

// What Ctrl-C left done and undone.
std::string interruption(std::size_t done, const RunOptions& options) {
  const bool complete = done == static_cast<std::size_t>(options.steps);
  std::string line = complete ? "interrupted when all steps were done"
                     : done == 0
                         ? fmt::format("interrupted in step 1 of {}", options.steps)
                         : fmt::format("interrupted after step {} of {}", done, options.steps);
  for (const std::string& file : {options.output, options.profile, options.trace}) {
    if (file.empty()) continue;
    line += fmt::format("; {} is {}", printable(file), complete ? "written" : "not written");
  }
  return line;
}

Result<int> print_program(Graph graph, const RunOptions& options) {
  const auto step = make_step(std::move(graph), options);
  if (!step) return fail(step.error());
  return write_file("-", to_text((*step)->graph(), (*step)->program())).map([] { return 0; });
}

// Whether the step was captured with deterministic algorithms: other kernels, other bits.
constexpr std::string_view kDeterministic = "deterministic";
std::string_view setting(const StateFile& state, std::string_view name) {
  const auto entry = state.metadata().find(std::string(name));
  return entry == state.metadata().end() ? std::string_view() : std::string_view(entry->second);
}
bool is_deterministic(const StateFile& state) { return !setting(state, kDeterministic).empty(); }

// A step that was captured on a GPU says so, and how exact its products were.
constexpr std::array<std::string_view, 3> kGpuSettings = {"device", "tf32.matmul", "tf32.cudnn"};
void use_gpu_settings(const StateFile& state) {
  if (setting(state, "device").empty()) return;
  allow_tf32(setting(state, "tf32.matmul") == "true", setting(state, "tf32.cudnn") != "false");
}

Status set_generator(const RunOptions& options, const StateFile& state, const std::string& path) {
  if (options.seed || state.generator().empty()) {
    // PyTorch itself would begin by chance; here the same files give the same numbers.
    seed_generator(options.device, options.seed.value_or(kDefaultSeed));
    return {};
  }
  if (Status ok = set_generator_state(options.device, state.generator()); !ok) {
    return fail(ErrorKind::kBadInput,
                fmt::format("{}: 'ebb.generator' is {}", shown_name(path), ok.error().message));
  }
  return {};
}

Status save_state(const RunOptions& options, const torch::Step& step, const StateFile& state,
                  const ScalarValues& scalars) {
  Metadata metadata = scalar_metadata(scalars.later);
  if (is_deterministic(state)) {
    metadata[std::string(kDeterministic)] = setting(state, kDeterministic);
  }
  for (const std::string_view name : kGpuSettings) {
    const std::string_view value = setting(state, name);
    if (!value.empty()) metadata[std::string(name)] = value;
  }
  return state.save(options.output, step, std::move(metadata), generator_state(options.device));
}

Status save_profile(const std::string& path, const exec::Profiler& profiler,
                    const RunOptions& options, torch::Step& step) {
  const auto profile = profiler.profile(options.device);
  if (!profile) return fail(profile.error());
  const auto whole = step.with_split_calls(*profile);
  if (!whole) return fail(whole.error());
  return write_file(path, to_json(*whole));
}

Result<int> run_steps(const RunOptions& options, torch::Step& step, const StateFile& state,
                      const ScalarValues& scalars) {
  if (!options.json) {
    if (Status ok = write_file("-", head_line(step)); !ok) return fail(ok.error());
  }
  note_interrupts_from_now_on();
  std::optional<exec::Profiler> profiler;
  if (!options.profile.empty()) profiler.emplace(step.graph(), step.program(), step.recipes());
  Run run(step, state, scalars, profiler ? &*profiler : nullptr,
          profiler.has_value() || !options.trace.empty());
  const auto wanted = static_cast<std::size_t>(options.steps);
  while (run.records().size() < wanted && !was_interrupted()) {
    const auto record = run.do_step();
    if (!record) return fail(record.error());
    print_notes(step);
    if (*record == nullptr || options.json) continue;
    const std::string line = step_line(step.graph(), run.records().size(), **record);
    if (Status ok = write_file("-", line); !ok) return fail(ok.error());
  }
  if (run.records().size() == wanted) {
    if (!options.output.empty()) {
      if (Status ok = save_state(options, step, state, scalars); !ok) return fail(ok.error());
    }
    if (!options.trace.empty()) {
      const Timeline timeline = exec::measured_timeline(step.graph(), step.program(), run.times());
      const std::string trace = to_trace(step.graph(), timeline);
      if (Status ok = write_file(options.trace, trace); !ok) return fail(ok.error());
    }
    if (profiler) {
      if (Status ok = save_profile(options.profile, *profiler, options, step); !ok) {
        return fail(ok.error());
      }
    }
  }
  if (options.json) {
    const std::string text = json_text(step, run.records());
    if (Status ok = write_file("-", text); !ok) return fail(ok.error());
  }
  if (!was_interrupted()) return 0;
  write_to_stderr(fmt::format("ebb: {}\n", interruption(run.records().size(), options)));
  return kInterruptedStatus;
}

}  // namespace

Result<int> run(RunOptions options) {
  if (Status ok = torch::check_libtorch(); !ok) return fail(ok.error());
  watch_for_interrupt();
  if (options.threads) set_thread_count(*options.threads);  // before measuring: it depends on them
  auto graph = read_graph(options.step);
  if (!graph) return fail(graph.error());
  if (options.program) {
    if (options.device.empty()) options.device = "cpu";
    return print_program(*std::move(graph), options);
  }

  // Everything that can be wrong is looked at before the work begins.
  const auto path = state_path(options);
  if (!path) return fail(path.error());
  auto state = StateFile::load(*graph, *path);
  if (!state) return fail(state.error());
  if (options.device.empty()) {
    const std::string_view captured_on = setting(*state, "device");
    options.device = captured_on.empty() ? "cpu" : captured_on;
  }
  if (Status ok = torch::check_device(options.device); !ok) return fail(ok.error());
  use_gpu_settings(*state);
  const auto scalars = scalar_values(*graph, state->metadata(), options.scalars, shown_name(*path));
  if (!scalars) return fail(scalars.error());
  if (Status ok = set_generator(options, *state, *path); !ok) return fail(ok.error());
  if (Status ok = check_outputs(options, *path); !ok) return fail(ok.error());
  print_notes(*state, *path);
  if (is_deterministic(*state)) {
    use_deterministic_algorithms(setting(*state, kDeterministic) == "warn");
  }

  const auto step = make_step(*std::move(graph), options);
  if (!step) return fail(step.error());
  if (Status ok = state->move_in(**step); !ok) return fail(ok.error());
  return run_steps(options, **step, *state, *scalars);
}

}  // namespace ebb::tool

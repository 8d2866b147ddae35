#include "run.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ebb/base/file.h"
#include "ebb/exec/profiler.h"
#include "ebb/graph/text_names.h"
#include "ebb/plan/profile.h"
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

Result<std::unique_ptr<torch::Step>> make_step(Graph graph) {
  Progress progress("measuring operations");
  torch::StepOptions options;
  options.progress = [&](std::size_t done, std::size_t total) {
    progress.update(done < total ? fmt::format("measuring operations, {} of {}", done, total)
                                 : "planning");
  };
  return torch::Step::make(std::move(graph), options);
}

void print_notes(const StateFile& state, const std::string& path) {
  if (state.unused().empty()) return;
  const std::size_t more = state.unused().size() - 1;
  write_to_stderr(fmt::format("ebb: {}: note: the step does not use '{}'{}\n", shown_name(path),
                              printable(state.unused()[0]),
                              more == 0 ? "" : fmt::format(", nor {} more of the file", more)));
}

std::string head_line(const Program& program) {
  std::string line = fmt::format("arena {}, of it state {}; bound {}", to_human(program.arena_size),
                                 to_human(program.state_size), to_human(program.bound));
  if (program.host_size.count > 0) line += fmt::format("; host {}", to_human(program.host_size));
  return line + "\n";
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

std::string json_text(const Program& program, const std::vector<StepRecord>& records) {
  Json steps = Json::array();
  for (const StepRecord& record : records) {
    Json outputs = Json::array();
    for (const auto& number : record.returned) {
      outputs.push_back(number ? to_json(*number) : Json());
    }
    steps.push_back(Json{{"outputs", std::move(outputs)},
                         {"seconds", std::chrono::duration<double>(record.duration).count()}});
  }
  const Json out{{"arena_bytes", program.arena_size.count},
                 {"state_bytes", program.state_size.count},
                 {"bound_bytes", program.bound.count},
                 {"host_bytes", program.host_size.count},
                 {"steps", std::move(steps)}};
  return out.dump(2) + "\n";
}

// The run itself: a step with its state in place.
class Run {
 public:
  // The profiler may be null.
  Run(torch::Step& step, const StateFile& state, const ScalarValues& scalars,
      exec::Profiler* profiler)
      : step_(step), state_(state), scalars_(scalars), profiler_(profiler) {}

  // Does one more step; nullptr when Ctrl-C came before it had changed anything.
  [[nodiscard]] Result<const StepRecord*> do_step() {
    const auto begin = Clock::now();
    state_.fill_inputs(step_);
    bool stopped = false;
    const Status ok = step_.run(
        records_.empty() ? scalars_.first : scalars_.later,
        [&] { return stopped = was_interrupted(); }, profiler_ == nullptr ? nullptr : &times_);
    if (stopped) return nullptr;
    if (!ok) return fail(ok.error());
    StepRecord& record = records_.emplace_back();
    record.duration = std::chrono::duration_cast<Duration>(Clock::now() - begin);
    if (profiler_ != nullptr) profiler_->add_step(times_);
    for (const TensorId tensor : step_.graph().outputs()) {
      record.returned.push_back(returned_number(step_, tensor));
    }
    return &record;
  }

  [[nodiscard]] const std::vector<StepRecord>& records() const { return records_; }

 private:
  torch::Step& step_;
  const StateFile& state_;
  const ScalarValues& scalars_;
  exec::Profiler* profiler_;
  std::vector<Duration> times_;  // of the step at hand, by instruction
  std::vector<StepRecord> records_;
};

// What Ctrl-C left done and undone.
std::string interruption(std::size_t done, const RunOptions& options) {
  const bool complete = done == static_cast<std::size_t>(options.steps);
  std::string line = complete ? "interrupted when all steps were done"
                     : done == 0
                         ? fmt::format("interrupted in step 1 of {}", options.steps)
                         : fmt::format("interrupted after step {} of {}", done, options.steps);
  for (const std::string& file : {options.output, options.profile}) {
    if (file.empty()) continue;
    line += fmt::format("; {} is {}", printable(file), complete ? "written" : "not written");
  }
  return line;
}

Result<int> print_program(Graph graph) {
  const auto step = make_step(std::move(graph));
  if (!step) return fail(step.error());
  return write_file("-", to_text((*step)->graph(), (*step)->program())).map([] { return 0; });
}

// Whether the step was captured with deterministic algorithms: other kernels, other bits.
constexpr std::string_view kDeterministic = "deterministic";
bool is_deterministic(const StateFile& state) {
  const auto entry = state.metadata().find(std::string(kDeterministic));
  return entry != state.metadata().end() && entry->second == "true";
}

Status set_generator(const RunOptions& options, const StateFile& state, const std::string& path) {
  if (options.seed || state.generator().empty()) {
    // PyTorch itself would begin by chance; here the same files give the same numbers.
    seed_generator(options.seed.value_or(kDefaultSeed));
    return {};
  }
  if (Status ok = set_generator_state(state.generator()); !ok) {
    return fail(ErrorKind::kBadInput,
                fmt::format("{}: 'ebb.generator' is {}", shown_name(path), ok.error().message));
  }
  return {};
}

Status save_state(const RunOptions& options, const torch::Step& step, const StateFile& state,
                  const ScalarValues& scalars) {
  Metadata metadata = scalar_metadata(scalars.later);
  if (is_deterministic(state)) metadata[std::string(kDeterministic)] = "true";
  return state.save(options.output, step, std::move(metadata), generator_state());
}

Status save_profile(const std::string& path, const exec::Profiler& profiler) {
  const auto profile = profiler.profile("cpu");
  if (!profile) return fail(profile.error());
  return write_file(path, to_json(*profile));
}

Result<int> run_steps(const RunOptions& options, torch::Step& step, const StateFile& state,
                      const ScalarValues& scalars) {
  if (!options.json) {
    if (Status ok = write_file("-", head_line(step.program())); !ok) return fail(ok.error());
  }
  note_interrupts_from_now_on();
  std::optional<exec::Profiler> profiler;
  if (!options.profile.empty()) profiler.emplace(step.graph(), step.program(), step.recipes());
  Run run(step, state, scalars, profiler ? &*profiler : nullptr);
  const auto wanted = static_cast<std::size_t>(options.steps);
  while (run.records().size() < wanted && !was_interrupted()) {
    const auto record = run.do_step();
    if (!record) return fail(record.error());
    if (*record == nullptr || options.json) continue;
    const std::string line = step_line(step.graph(), run.records().size(), **record);
    if (Status ok = write_file("-", line); !ok) return fail(ok.error());
  }
  if (run.records().size() == wanted) {
    if (!options.output.empty()) {
      if (Status ok = save_state(options, step, state, scalars); !ok) return fail(ok.error());
    }
    if (profiler) {
      if (Status ok = save_profile(options.profile, *profiler); !ok) return fail(ok.error());
    }
  }
  if (options.json) {
    const std::string text = json_text(step.program(), run.records());
    if (Status ok = write_file("-", text); !ok) return fail(ok.error());
  }
  if (!was_interrupted()) return 0;
  write_to_stderr(fmt::format("ebb: {}\n", interruption(run.records().size(), options)));
  return kInterruptedStatus;
}

}  // namespace

Result<int> run(const RunOptions& options) {
  if (Status ok = torch::check_libtorch(); !ok) return fail(ok.error());
  watch_for_interrupt();
  if (options.threads) set_thread_count(*options.threads);  // before measuring: it depends on them
  auto graph = read_graph(options.step);
  if (!graph) return fail(graph.error());
  if (options.program) return print_program(*std::move(graph));

  // Everything that can be wrong is looked at before the work begins.
  const auto path = state_path(options);
  if (!path) return fail(path.error());
  auto state = StateFile::load(*graph, *path);
  if (!state) return fail(state.error());
  const auto scalars = scalar_values(*graph, state->metadata(), options.scalars, shown_name(*path));
  if (!scalars) return fail(scalars.error());
  if (Status ok = set_generator(options, *state, *path); !ok) return fail(ok.error());
  for (const std::string& file : {options.output, options.profile}) {
    if (file.empty()) continue;
    if (Status ok = check_output(file); !ok) return fail(ok.error());
  }
  print_notes(*state, *path);
  if (is_deterministic(*state)) use_deterministic_algorithms();

  const auto step = make_step(*std::move(graph));
  if (!step) return fail(step.error());
  state->move_in(**step);
  return run_steps(options, **step, *state, *scalars);
}

}  // namespace ebb::tool

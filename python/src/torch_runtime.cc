// ebb.torch._runtime: what runs PyTorch's kernels. Loaded by ebb/torch/_load.py, after torch.
//
// Tensors do not cross this border; memory does (DLPack), and Python makes tensors of it.
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>
#include <nlohmann/json.hpp>

#include "ebb/exec/host_memory.h"
#include "ebb/exec/measured_timeline.h"
#include "ebb/exec/measurements.h"
#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"
#include "ebb/report/plan_summary.h"
#include "ebb/report/trace.h"
#include "ebb/torch/step.h"
#include "ebb/torch/storage.h"
#include "ebb/torch/version.h"
#include "errors.h"

namespace nb = nanobind;
using namespace nb::literals;  // NOLINT(google-build-using-namespace): "text"_a

namespace ebb::python {
namespace {

using torch::Step;
using Memory = nb::ndarray<nb::pytorch, std::uint8_t, nb::ndim<1>, nb::c_contig>;
using Progress = torch::TellProgress;
using CaptureAnew = std::function<std::optional<std::string>(const torch::StridesByName&)>;

std::pair<std::string, std::string> torch_versions() {
  return {to_string(torch::built_with()), to_string(torch::running_with())};
}

// For callers that do not hold Python's lock.
Progress with_lock(const Progress& progress) {
  if (!progress) return nullptr;
  return [&progress](std::string_view what, std::size_t done, std::size_t total) {
    const nb::gil_scoped_acquire lock;
    progress(what, done, total);
  };
}

// The same; what it gives is a graph's text.
std::function<std::optional<Graph>(const torch::StridesByName&)> with_lock(
    const CaptureAnew& capture) {
  if (!capture) return nullptr;
  return [&capture](const torch::StridesByName& strides) -> std::optional<Graph> {
    const nb::gil_scoped_acquire lock;
    const std::optional<std::string> text = capture(strides);
    if (!text) return std::nullopt;
    return value_or_raise(parse_valid(*text));
  };
}

// What `make` makes of a graph's text; where nothing fits, the error tells why, in some lines.
template <class Made>
Made made_of(std::string_view text, torch::StepOptions& options,
             Result<Made> (*make)(Graph, const torch::StepOptions&)) {
  std::string explanation;
  options.explain = [&](std::string_view lines) { explanation = lines; };
  auto made = without_lock([&]() -> Result<Made> {
    auto graph = parse_valid(text);
    if (!graph) return fail(graph.error());
    return make(*std::move(graph), options);
  });
  if (!made && !explanation.empty()) made.error().message += "\n" + explanation;
  return value_or_raise(std::move(made));
}

std::unique_ptr<Step> make_step(std::string_view text, std::string device, std::string budget,
                                std::string host_budget, const Step* shares_arena_of,
                                exec::Measurements* known, std::optional<std::uint32_t> evaluations,
                                const CaptureAnew& capture_anew, const Progress& progress) {
  torch::StepOptions options;
  options.device = std::move(device);
  options.budget = std::move(budget);
  options.host_budget = std::move(host_budget);
  options.shares_arena_of = shares_arena_of;
  options.known = known;
  options.evaluations = evaluations;
  options.capture_anew = with_lock(capture_anew);
  options.progress = with_lock(progress);
  return made_of(text, options, &Step::make);
}

TensorId tensor_of(const Step& step, std::string_view name) {
  const TensorId tensor = step.graph().find_tensor(name);
  if (!tensor.valid()) {
    raise(Error{.kind = ErrorKind::kUsage,
                .code = {},
                .message = "the step has no tensor %" + std::string(name),
                .place = {}});
  }
  return tensor;
}

// The bytes of the whole storage behind a tensor. They stay as long as somebody has them.
Memory memory_of(const Step& step, std::string_view name) {
  const Graph& graph = step.graph();
  const TensorId tensor = tensor_of(step, name);
  const StorageId storage = graph.storage(tensor);
  using Owner = std::shared_ptr<const exec::Arena>;
  auto owner = std::make_unique<Owner>(step.block(tensor));
  const nb::capsule capsule(owner.get(), [](void* p) noexcept {
    const std::unique_ptr<Owner> gone(static_cast<Owner*>(p));
  });
  owner.release();  // NOLINT(bugprone-unused-return-value): the capsule has it
  const bool is_on_gpu = !step.device().is_cpu() && graph.residence(storage) == Residence::kDevice;
  return Memory(step.place(graph.root(storage)),
                {static_cast<std::size_t>(graph.size(storage).value_or(Bytes{}).count)}, capsule,
                {}, nb::dtype<std::uint8_t>(),
                is_on_gpu ? nb::device::cuda::value : nb::device::cpu::value,
                is_on_gpu ? step.device().index() : 0);
}

nb::list outputs_of(const Step& step) {
  nb::list outputs;
  for (const TensorId tensor : step.graph().outputs())
    outputs.append(as_str(step.graph().name(tensor)));
  return outputs;
}

// (element type, sizes, strides, bytes from the start of the storage)
nb::tuple layout_of(const Step& step, std::string_view name) {
  const TensorId tensor = tensor_of(step, name);
  const TensorType& type = step.graph().type(tensor);
  nb::list size;
  for (const std::int64_t dim : type.dims) size.append(dim);
  nb::list stride;
  for (const std::int64_t s : type.strides.empty() ? row_major_strides(type.dims) : type.strides) {
    stride.append(s);
  }
  return nb::make_tuple(as_str(ebb::name(type.dtype)), size, stride,
                        step.graph().offset(tensor).count);
}

// What making it ready found out, as one JSON object; docs/pytorch.md says what the keys are.
std::string report_of(const Step& step) {
  const auto seconds = [](Duration duration) {
    return std::chrono::duration<double>(duration).count();
  };
  const Program& program = step.program();
  const torch::Preparation& preparation = step.preparation();
  nlohmann::ordered_json report{{"device", step.device().str()},
                                {"budget_bytes", step.budget().count},
                                {"unconstrained_bytes", step.unconstrained().count},
                                {"peak_bytes", program.arena_size.count},
                                {"state_bytes", program.state_size.count},
                                {"bound_bytes", program.bound.count},
                                {"host_bytes", program.host_size.count},
                                {"instructions", program.instructions.size()},
                                {"seconds",
                                 {{"measuring", seconds(preparation.measuring)},
                                  {"timing", seconds(preparation.timing)},
                                  {"planning", seconds(preparation.planning)},
                                  {"allocating", seconds(preparation.allocating)}}}};
  if (step.planned() != nullptr) {
    report["plan_was_known"] = preparation.plan_was_known;
    report["plan"] = nlohmann::ordered_json::parse(to_json(*step.planned()));
  }
  if (const auto& replanned = step.replanned()) {
    report["replanned"] = {{"measured_seconds", seconds(replanned->measured)},
                           {"predicted_seconds", seconds(replanned->predicted)},
                           {"old_seconds", seconds(replanned->kept)},
                           {"new_seconds", seconds(replanned->anew)},
                           {"used", replanned->is_used}};
  }
  return report.dump();
}

// What planning such a step finds out, as report_of; kInfeasible, with the explanation, where
// nothing fits. Search for speed is left out.
std::string plan_step(std::string_view text, std::string device, std::string budget,
                      std::string host_budget, exec::Measurements* known,
                      const CaptureAnew& capture_anew, const Progress& progress) {
  torch::StepOptions options;
  options.device = std::move(device);
  options.budget = std::move(budget);
  options.host_budget = std::move(host_budget);
  options.known = known;
  options.evaluations = 0;
  options.capture_anew = with_lock(capture_anew);
  options.progress = with_lock(progress);
  return report_of(*made_of(text, options, &Step::plan));
}

void run_step(Step& step, const std::map<std::string, double>& scalars, bool is_timed,
              const Progress& progress) {
  std::map<std::string, exec::Number> numbers(scalars.begin(), scalars.end());
  using Clock = std::chrono::steady_clock;
  constexpr auto kPatience = std::chrono::milliseconds(50);
  Clock::time_point asked = Clock::now();
  // Ctrl-C: Python notes the signal, and we ask it now and then.
  const auto interrupted = [&] {
    const Clock::time_point now = Clock::now();
    if (now - asked < kPatience) return false;
    asked = now;
    const nb::gil_scoped_acquire lock;
    return PyErr_CheckSignals() != 0;
  };
  const Progress tell = with_lock(progress);
  const Status ok = without_lock([&] { return step.run(numbers, interrupted, is_timed, tell); });
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  ok_or_raise(ok);
}

void bind(nb::module_& module) {
  module.def("torch_versions", &torch_versions,
             "The torch that this was built with, and the one that it runs with.");
  module.def(
      "available_host_bytes", [] { return exec::available_host_memory().count; },
      "Host memory that can be had without pushing anybody out, in the system and in the "
      "container.");
  module.def(
      "move_out", &torch::move_out, "storage"_a, "copy"_a,
      "A storage takes the memory of a copy of it, which is left without; by their ``_cdata``.");
  nb::class_<exec::Measurements>(
      module, "Measurements", "What was measured of operations, so that nothing is measured twice.")
      .def(nb::init<>())
      .def("__len__", [](const exec::Measurements& known) { return known.size(); });
  module.def("plan", &plan_step, "text"_a, nb::kw_only(), "device"_a = "cpu", "budget"_a = "100%",
             "host_budget"_a = "", "known"_a = nb::none(), "capture_anew"_a = nb::none(),
             "progress"_a = nb::none(),
             "Whether a step fits, without making it: its report, as JSON.");
  nb::class_<Step>(module, "Step", "A step made ready to run: program, arena, kernels.")
      .def(nb::new_(&make_step), "text"_a, nb::kw_only(), "device"_a = "cpu", "budget"_a = "100%",
           "host_budget"_a = "", "shares_arena_of"_a = nb::none(), "known"_a = nb::none(),
           "evaluations"_a = nb::none(), "capture_anew"_a = nb::none(), "progress"_a = nb::none(),
           "Measures every distinct operation, plans for the budget, lays out the arena and binds "
           "the kernels. Where results lie otherwise than the text says, ``capture_anew(strides)`` "
           "may give another one; ``progress(what, done, total)`` is told how far it is.")
      .def("memory", &memory_of, "name"_a,
           "The bytes of the storage behind a tensor, as long as somebody has them.")
      .def("layout", &layout_of, "name"_a,
           "Element type, sizes, strides, and bytes from the start of the storage.")
      .def("run", &run_step, "scalars"_a, "is_timed"_a = false, "progress"_a = nb::none(),
           "One step, with values for all runtime scalars; ``progress(what, done, total)`` is told "
           "where it is planned again afterwards.")
      .def(
          "settle", [](Step& step) { ok_or_raise(without_lock([&] { return step.settle(); })); },
          "Returns when the device has done all that was put into it.")
      .def_prop_ro("is_kept", &Step::is_kept,
                   "Whether the GPU does the step again as it was recorded, without calls.")
      .def("take_notes", &Step::take_notes,
           "What people should hear of and nobody has been told yet: a line each.")
      .def("report", &report_of, "What was measured and planned, as JSON.")
      .def(
          "trace",
          [](Step& step) {
            const auto times = value_or_raise(without_lock([&] { return step.times(); }));
            if (times.empty()) {
              raise(Error{.kind = ErrorKind::kUsage,
                          .code = {},
                          .message = "the last step was not timed",
                          .place = {}});
            }
            const Timeline timeline = exec::measured_timeline(step.graph(), step.program(), times);
            return as_str(to_trace(step.graph(), timeline));
          },
          "The last step, if it was timed, for ui.perfetto.dev.")
      .def(
          "predicted_trace",
          [](const Step& step) {
            const Planned* planned = step.planned();
            return planned == nullptr ? std::string()
                                      : to_trace(planned->plan->graph, planned->plan->timeline);
          },
          "The step as predicted, likewise; empty where the step fits as it is.")
      .def(
          "plan",
          [](const Step& step) {
            return step.planned() == nullptr ? std::string() : to_text(step.planned()->plan->file);
          },
          "The plan file; empty where the step fits as it is.")
      .def(
          "text", [](const Step& step) { return print(step.graph()); }, "The graph as it runs.")
      .def(
          "program", [](const Step& step) { return as_str(to_text(step.graph(), step.program())); },
          "The instructions and where everything lies, as text.")
      .def_prop_ro(
          "state_is_as_before", [](const Step& step) { return step.state_is_as_before(); },
          "Whether the last run has changed no state: it failed before the first update.")
      .def_prop_ro("runs_done", &Step::runs_done,
                   "Runs that came to their end, whatever was raised afterwards.")
      .def_prop_ro("generation", &Step::generation,
                   "Grows when a run has put inputs and outputs elsewhere, or changed the report.")
      .def_prop_ro("outputs", &outputs_of)
      .def_prop_ro("arena_bytes", [](const Step& step) { return step.program().arena_size.count; })
      .def_prop_ro("state_bytes", [](const Step& step) { return step.program().state_size.count; })
      .def_prop_ro("bound_bytes", [](const Step& step) { return step.program().bound.count; })
      .def_prop_ro("host_bytes", [](const Step& step) { return step.program().host_size.count; })
      .def_prop_ro("instruction_count",
                   [](const Step& step) { return step.program().instructions.size(); });
}

}  // namespace
}  // namespace ebb::python

NB_MODULE(_runtime, module) {
  ebb::python::ok_or_raise(ebb::torch::check_libtorch());
  ebb::python::translate_internal_errors();
  ebb::python::bind(module);
}

// ebb.torch._runtime: what runs PyTorch's kernels. Loaded by ebb/torch/_load.py, after torch.
//
// Tensors do not cross this border; memory does (DLPack), and Python makes tensors of it.
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>

#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"
#include "ebb/torch/step.h"
#include "ebb/torch/version.h"
#include "errors.h"

namespace nb = nanobind;
using namespace nb::literals;  // NOLINT(google-build-using-namespace): "text"_a

namespace ebb::python {
namespace {

using torch::Step;
using Memory = nb::ndarray<nb::pytorch, std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Progress = std::function<void(std::size_t, std::size_t)>;

std::pair<std::string, std::string> torch_versions() {
  return {to_string(torch::built_with()), to_string(torch::running_with())};
}

std::unique_ptr<Step> make_step(std::string_view text, const Progress& progress) {
  torch::StepOptions options;
  if (progress) {
    options.progress = [&](std::size_t done, std::size_t total) {
      const nb::gil_scoped_acquire lock;
      progress(done, total);
    };
  }
  return value_or_raise(without_lock([&]() -> Result<std::unique_ptr<Step>> {
    auto graph = parse_valid(text);
    if (!graph) return fail(graph.error());
    return Step::make(*std::move(graph), options);
  }));
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
  return Memory(step.place(graph.root(storage)),
                {static_cast<std::size_t>(graph.size(storage).value_or(Bytes{}).count)}, capsule);
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

void run_step(Step& step, const std::map<std::string, double>& scalars) {
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
  const Status ok = without_lock([&] { return step.run(numbers, interrupted); });
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  ok_or_raise(ok);
}

void bind(nb::module_& module) {
  module.def("torch_versions", &torch_versions,
             "The torch that this was built with, and the one that it runs with.");
  nb::class_<Step>(module, "Step", "A step made ready to run: program, arena, kernels.")
      .def(nb::new_(&make_step), "text"_a, "progress"_a = nb::none(),
           "Measures every distinct operation, plans the arena and binds the kernels; "
           "``progress(done, total)`` is told how far it is.")
      .def("memory", &memory_of, "name"_a,
           "The bytes of the storage behind a tensor, as long as somebody has them.")
      .def("layout", &layout_of, "name"_a,
           "Element type, sizes, strides, and bytes from the start of the storage.")
      .def("run", &run_step, "scalars"_a, "One step, with values for all runtime scalars.")
      .def(
          "program", [](const Step& step) { return as_str(to_text(step.graph(), step.program())); },
          "The instructions and where everything lies, as text.")
      .def_prop_ro(
          "state_is_whole", [](const Step& step) { return step.torn().is_whole(); },
          "Whether no state was updated in a step that failed.")
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

#include "graphdef.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "ebb/export/rewrite_graphdef.h"
#include "errors.h"

namespace nb = nanobind;
using namespace nb::literals;  // NOLINT(google-build-using-namespace): "graphdef"_a

namespace ebb::python {
namespace {

using FindOpDef = std::function<std::optional<nb::bytes>(std::string_view)>;

std::string_view view(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

SwapNodes parse_swap_nodes(std::string_view name) {
  if (name == "identity") return SwapNodes::kIdentity;
  if (name == "copy_kernels") return SwapNodes::kCopyKernels;
  raise(Error{
      .kind = ErrorKind::kUsage,
      .code = {},
      .message = "swap_nodes is 'identity' or 'copy_kernels', not '" + std::string(name) + "'",
      .place = {}});
}

GraphDefRewritten rewrite(const nb::bytes& graphdef, const LmsOptions& options,
                          const std::string& accelerator, const std::string& host,
                          std::string_view swap_nodes, const FindOpDef& op_def) {
  const TensorFlowDevices devices{.accelerator = accelerator, .host = host};
  GraphDefOptions reading{
      .devices = devices, .shape_of = nullptr, .op_def = nullptr, .is_fed = nullptr};
  if (op_def) {
    reading.op_def = [&](std::string_view op) -> std::optional<std::string> {
      const nb::gil_scoped_acquire lock;
      const std::optional<nb::bytes> found = op_def(op);
      return found ? std::optional<std::string>(view(*found)) : std::nullopt;
    };
  }
  const GraphDefExport writing{.devices = devices, .swap_nodes = parse_swap_nodes(swap_nodes)};
  const std::string_view bytes = view(graphdef);
  return value_or_raise(
      without_lock([&] { return rewrite_graphdef(bytes, options, reading, writing); }));
}

void set_min_bytes(LmsOptions& options, const nb::object& bytes) {
  std::string_view text;
  if (nb::try_cast(bytes, text)) {
    options.min_bytes = value_or_raise(parse_bytes(text));
  } else {
    options.min_bytes = Bytes{nb::cast<std::int64_t>(bytes)};
  }
}

void bind_options(nb::module_& module) {
  nb::class_<LmsOptions>(module, "LmsOptions",
                         "The parameters of the paper's driver and those that Ebb adds, by their "
                         "names and with their defaults.")
      .def(nb::init<>())
      .def_rw("optimizer_scopes", &LmsOptions::optimizer_scopes)
      .def_rw("starting_scope", &LmsOptions::starting_scope)
      .def_rw("starting_op_names", &LmsOptions::starting_op_names)
      .def_rw("excl_scopes", &LmsOptions::excl_scopes)
      .def_rw("excl_types", &LmsOptions::excl_types)
      .def_rw("incl_scopes", &LmsOptions::incl_scopes)
      .def_rw("incl_types", &LmsOptions::incl_types)
      .def_rw("n_tensors", &LmsOptions::n_tensors)
      .def_rw("lb", &LmsOptions::lb)
      .def_rw("ub", &LmsOptions::ub)
      .def_rw("ctrld_strategy", &LmsOptions::ctrld_strategy)
      .def_rw("fuse_swapins", &LmsOptions::fuse_swapins)
      .def_rw("swap_branches", &LmsOptions::swap_branches)
      .def_rw("branch_threshold", &LmsOptions::branch_threshold)
      .def_rw("fuse_distance", &LmsOptions::fuse_distance)
      .def_rw("whole_graph", &LmsOptions::whole_graph)
      .def_rw("alpha", &LmsOptions::alpha)
      .def_rw("codec", &LmsOptions::codec)
      .def_rw("codec_on_host", &LmsOptions::codec_on_host)
      .def_rw("sync", &LmsOptions::sync)
      .def_rw("recompute_types", &LmsOptions::recompute_types)
      .def_prop_rw(
          "min_bytes", [](const LmsOptions& options) { return options.min_bytes.count; },
          &set_min_bytes, nb::for_setter(nb::sig("def min_bytes(self, arg: int | str, /) -> None")),
          "A number, or a text as ``\"1MiB\"``.");
}

}  // namespace

void bind_graphdef(nb::module_& module) {
  bind_options(module);
  nb::class_<GraphDefRewritten>(module, "GraphDefRewritten", "What was done to a GraphDef.")
      .def_prop_ro(
          "graphdef",
          [](const GraphDefRewritten& done) {
            return done.graphdef.empty()
                       ? nb::object(nb::none())
                       : nb::object(nb::bytes(done.graphdef.data(), done.graphdef.size()));
          },
          nb::sig("def graphdef(self) -> bytes | None"), "None when nothing was changed.")
      .def_ro("was_rewritten_before", &GraphDefRewritten::was_rewritten_before,
              "The graph has nodes of Ebb's: it was left alone.")
      .def_prop_ro(
          "summary", [](const GraphDefRewritten& done) { return as_str(done.summary); },
          "For people, some lines.")
      .def_prop_ro(
          "report", [](const GraphDefRewritten& done) { return as_str(done.report); },
          "For programs: one JSON object.");
  const TensorFlowDevices devices;
  module.def(
      "rewrite_graphdef", &rewrite, "graphdef"_a, "options"_a,
      "accelerator"_a = devices.accelerator, "host"_a = devices.host, "swap_nodes"_a = "identity",
      "op_def"_a = nb::none(),
      "The paper's driver on a serialized GraphDef. ``op_def(name)`` is asked for the OpDef, "
      "serialized, of an operator that is not TensorFlow's own.");
}

}  // namespace ebb::python

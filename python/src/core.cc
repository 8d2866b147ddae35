// ebb._core: graphs and what can be said of them. No logic here: every function is one of
// ebb::core.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string_view.h>

#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"
#include "ebb/graph/verify.h"
#include "ebb/report/summary.h"
#include "errors.h"
#include "graphdef.h"

namespace nb = nanobind;
using namespace nb::literals;  // NOLINT(google-build-using-namespace): "text"_a

namespace ebb::python {
namespace {

Graph parse_text(std::string_view text) {
  return value_or_raise(without_lock([&] { return parse_valid(text); }));
}

nb::list find_violations_in_text(std::string_view text, std::size_t limit) {
  const ParsedGraph parsed = value_or_raise(without_lock([&] { return parse(text); }));
  nb::list found;
  for (const Violation& violation : find_violations(parsed.graph, limit)) {
    found.append(as_exception(as_error(violation, parsed)));
  }
  return found;
}

nb::str summary_text(const Graph& graph) {
  return as_str(without_lock([&] { return to_text(graph, summarize(graph)); }));
}

nb::str summary_json(const Graph& graph) {
  return as_str(without_lock([&] { return to_json(graph, summarize(graph)); }));
}

nb::str graph_text(const Graph& graph) {
  return as_str(without_lock([&] { return print(graph); }));
}

void bind(nb::module_& module) {
  module.attr("version") = EBB_VERSION;
  nb::class_<Graph>(module, "Graph",
                    "A computation: operations in the order in which they run. Always valid; "
                    "``str(graph)`` is its canonical text.")
      .def_prop_ro("name", [](const Graph& graph) { return as_str(graph.name()); })
      .def_prop_ro("node_count", &Graph::node_count)
      .def("summary", &summary_text,
           "Counts, order, memory curve, who is at the peak, the floor: for people.")
      .def("summary_json", &summary_json, "The same for programs: one JSON object.")
      .def("__str__", &graph_text)
      .def("__repr__", [](const Graph& graph) {
        return nb::str("<ebb.Graph {!r}, {} nodes>")
            .format(as_str(graph.name()), graph.node_count());
      });
  module.def("parse", &parse_text, "text"_a,
             "The graph that a text describes; raises ebb.Error where it is wrong or breaks an "
             "invariant.");
  module.def("find_violations", &find_violations_in_text, "text"_a, "limit"_a = 10,
             nb::sig("def find_violations(text: str, limit: int = 10) -> list[ebb.error.Error]"),
             "Every violation of the first invariant that has any, at most ``limit`` of them, not "
             "raised; an unreadable text is.");
}

}  // namespace
}  // namespace ebb::python

NB_MODULE(_core, module) {
  ebb::python::translate_internal_errors();
  ebb::python::bind(module);
  ebb::python::bind_graphdef(module);
}

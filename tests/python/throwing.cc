// An extension module that meets a bug: what the bindings make of InternalError.
#include <nanobind/nanobind.h>

#include "ebb/base/check.h"
#include "errors.h"

NB_MODULE(ebb_throwing, module) {
  ebb::python::translate_internal_errors();
  module.def("fail", [] {
    ebb::throw_internal_error("planner.cc", 7, "fits", "the plan lost %a", "graph g {\n}\n");
  });
}

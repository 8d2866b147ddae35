// TensorFlow's graphs in Python: what ebb._core has of ebb/export/rewrite_graphdef.h.
#pragma once

#include <nanobind/nanobind.h>

namespace ebb::python {

void bind_graphdef(nanobind::module_& module);

}  // namespace ebb::python

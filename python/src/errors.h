// Errors on their way to Python: every Error and InternalError becomes the one exception ebb.Error.
#pragma once

#include <utility>

#include <nanobind/nanobind.h>

#include "ebb/base/result.h"

namespace ebb::python {

// The exception with the error's words, not raised.
nanobind::object as_exception(const Error& error);

[[noreturn]] void raise(const Error& error);

// What a function of ours returned, or the exception. Holds the interpreter's lock.
template <class T>
T value_or_raise(Result<T> result) {
  if (!result) raise(result.error());
  return std::move(*result);
}
inline void ok_or_raise(const Status& status) {
  if (!status) raise(status.error());
}

// Lets other Python threads run while `work` does; `work` must not touch Python.
template <class Work>
auto without_lock(const Work& work) {
  const nanobind::gil_scoped_release released;
  return work();
}

// Our own bugs become ebb.Error of kind "internal". Once for each extension module.
void translate_internal_errors();

// UTF-8 as Python text, whatever the bytes.
nanobind::str as_str(std::string_view text);

}  // namespace ebb::python

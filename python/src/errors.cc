#include "errors.h"

#include <exception>

#include "ebb/base/check.h"

namespace nb = nanobind;

namespace ebb::python {
namespace {

const char* kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
      return "usage";
    case ErrorKind::kBadInput:
      return "bad_input";
    case ErrorKind::kInfeasible:
      return "infeasible";
    case ErrorKind::kRefused:
      return "refused";
  }
  return "internal";
}

nb::object error_class() { return nb::module_::import_("ebb.error").attr("Error"); }

nb::object positive(int number) { return number > 0 ? nb::object(nb::int_(number)) : nb::none(); }

// An explanation may have several lines; nothing else that a terminal would act on comes through.
std::string printable_lines(std::string_view text) {
  std::string out;
  while (true) {
    const std::size_t end = text.find('\n');
    out += printable(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

nb::object text_or_none(std::string_view text) {
  return text.empty() ? nb::none() : nb::object(as_str(text));
}

}  // namespace

nb::str as_str(std::string_view text) {
  return nb::steal<nb::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

nb::object as_exception(const Error& error) {
  return error_class()(as_str(printable_lines(error.message)), kind_name(error.kind),
                       text_or_none(error.code), positive(error.place.line),
                       positive(error.place.column));
}

void raise(const Error& error) {
  PyErr_SetObject(error_class().ptr(), as_exception(error).ptr());
  throw nb::python_error();
}

void translate_internal_errors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const InternalError& error) {
      const std::string message = std::string(error.what()) +
                                  "; this is a bug in Ebb, not in your program; please report it";
      const nb::object exception =
          error_class()(as_str(message), "internal", nb::none(), nb::none(), nb::none(),
                        text_or_none(error.dump()));
      PyErr_SetObject(error_class().ptr(), exception.ptr());
    }
  });
}

}  // namespace ebb::python

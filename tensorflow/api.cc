#include "api.h"

#include <dlfcn.h>

#include <array>
#include <memory>
#include <string>

#include <fmt/format.h>

namespace ebb::grappler {
namespace {

struct CloseLibrary {
  void operator()(void* handle) const { dlclose(handle); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

// A library that is loaded already; null when it is not.
Library loaded_library(const char* name) { return Library(dlopen(name, RTLD_LAZY | RTLD_NOLOAD)); }

}  // namespace

Result<TensorFlowApi> find_tensorflow(const void* address) {
  std::array<Library, 3> libraries;
  Dl_info caller{};
  if (dladdr(address, &caller) != 0 && caller.dli_fname != nullptr) {
    libraries[0] = loaded_library(caller.dli_fname);
  }
  libraries[1] = loaded_library("libtensorflow_cc.so.2");
  libraries[2] = loaded_library("libtensorflow_framework.so.2");

  const auto find = [&](const char* name) -> void* {
    for (const Library& library : libraries) {
      if (library == nullptr) continue;
      if (void* symbol = dlsym(library.get(), name)) return symbol;
    }
    return nullptr;
  };
  TensorFlowApi api;
  std::string missing;
#define EBB_FIND(function)                                                  \
  api.function = reinterpret_cast<decltype(api.function)>(find(#function)); \
  if (api.function == nullptr) missing = #function;
  EBB_TENSORFLOW_FUNCTIONS(EBB_FIND)
#undef EBB_FIND
  if (!missing.empty()) {
    return fail(
        ErrorKind::kUsage,
        fmt::format("this TensorFlow has no function {}; Ebb needs 2.16 or newer", missing));
  }
  return api;
}

}  // namespace ebb::grappler

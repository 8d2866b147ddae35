#include "other_plugin.h"

#include <dlfcn.h>
#include <link.h>

#include <memory>
#include <vector>

#include <fmt/format.h>

#include "ebb/base/result.h"

namespace ebb::grappler {
namespace {

constexpr const char* kPlugin = "TF_InitGraph";
constexpr const char* kIsLoaded = "ebb_grappler_is_loaded";

int collect(dl_phdr_info* info, std::size_t /*size*/, void* paths) {
  if (info->dlpi_name == nullptr || *info->dlpi_name == '\0') return 0;  // the program
  static_cast<std::vector<std::string>*>(paths)->emplace_back(info->dlpi_name);
  return 0;
}

const void* base_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) == 0 ? nullptr : info.dli_fbase;
}

}  // namespace

std::string reason_not_to_register() {
  const void* const ours = base_of(reinterpret_cast<const void*>(&reason_not_to_register));
  std::vector<std::string> paths;
  dl_iterate_phdr(collect, &paths);
  for (const std::string& path : paths) {
    const std::unique_ptr<void, int (*)(void*)> library(
        dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD), dlclose);
    if (library == nullptr) continue;
    const void* const plugin = dlsym(library.get(), kPlugin);
    if (plugin == nullptr || base_of(plugin) == ours) continue;
    void* const is_loaded = dlsym(library.get(), kIsLoaded);
    if (is_loaded == nullptr) {
      return fmt::format(
          "another plug-in for TensorFlow's Grappler is loaded, '{}', and TensorFlow ends the "
          "process when two are for the same device",
          printable(path));
    }
    if (reinterpret_cast<int (*)()>(is_loaded)() != 0) {
      return fmt::format("another copy of Ebb's plug-in is loaded, '{}': use one of them",
                         printable(path));
    }
  }
  return {};
}

}  // namespace ebb::grappler

// What the library exports: TF_InitGraph, which TensorFlow calls when it loads it, and a few
// functions for Python. Nothing thrown leaves this file.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>

#include "plugin.h"

using ebb::grappler::Passes;
using ebb::grappler::Plugin;

namespace {

// TensorFlow asks for one for each graph, and releases it when it is done with that.
void* create() { return new (std::nothrow) Passes; }
void destroy(void* passes) {
  const std::unique_ptr<Passes> owned(static_cast<Passes*>(passes));
  if (owned != nullptr) Plugin::instance().end(*owned);
}

// NOLINTBEGIN(cppcoreguidelines-no-malloc): C takes it over, and releases it.

// For the caller to release; null when there is no memory. A zero follows the text.
char* copy_of(std::string_view text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) return nullptr;
  *std::copy(text.begin(), text.end(), copy) = '\0';
  return copy;
}

void release(void* copy) { std::free(copy); }

// NOLINTEND(cppcoreguidelines-no-malloc)

void optimize(void* passes, const TF_Buffer* graph, const TF_GrapplerItem* item, TF_Buffer* out,
              TF_Status* status) {
  Plugin& self = Plugin::instance();
  std::optional<std::string> rewritten;
  if (passes != nullptr) rewritten = self.optimize(*static_cast<Passes*>(passes), graph, item);
  char* const copy = rewritten ? copy_of(*rewritten) : nullptr;
  if (!rewritten || copy == nullptr) {
    self.set_status(status, TF_ABORTED, "nothing was done");
    return;
  }
  out->data = copy;
  out->length = rewritten->size();
  out->data_deallocator = [](void* data, std::size_t) { release(data); };
  self.set_status(status, TF_OK, "");
}

template <class Function>
char* text_or_problem(Function&& function) noexcept {
  try {
    return copy_of(function());
  } catch (const std::exception& problem) {
    return copy_of(problem.what());
  }
}

}  // namespace

extern "C" {

int ebb_grappler_is_loaded();
char* ebb_grappler_configure(const char* json);
void ebb_grappler_disable();
char* ebb_grappler_report();
std::uint64_t ebb_grappler_last_number();
char* ebb_grappler_profile(const char* measured);
void ebb_grappler_forget_reports();
void ebb_grappler_free(char* text);

void TF_InitGraph(TP_OptimizerRegistrationParams* params, TF_Status* /*status*/) {
  // The sizes stay as TensorFlow set them: it reads no more of the structs than its version has.
  const void* const caller = __builtin_return_address(0);
  try {
    params->device_type = Plugin::instance().load(caller);
  } catch (...) {
    params->device_type = "EBB_OUT_OF_MEMORY";  // a device that nobody has
  }
  params->optimizer->create_func = create;
  params->optimizer->optimize_func = optimize;
  params->optimizer->destroy_func = destroy;
}

// Whether TensorFlow has called TF_InitGraph.
int ebb_grappler_is_loaded() { return Plugin::instance().is_loaded() ? 1 : 0; }

// Turns the plug-in on with these parameters. Returns the error, or an empty text.
char* ebb_grappler_configure(const char* json) {
  return text_or_problem([&]() -> std::string {
    const ebb::Status status = Plugin::instance().configure(json);
    return status ? "" : status.error().message;
  });
}

void ebb_grappler_disable() { Plugin::instance().disable(); }

char* ebb_grappler_report() {
  return text_or_problem([] { return Plugin::instance().report(); });
}

std::uint64_t ebb_grappler_last_number() { return Plugin::instance().last_number(); }

// A profile, or a text that is no JSON object: what is wrong.
char* ebb_grappler_profile(const char* measured) {
  return text_or_problem([&]() -> std::string {
    const auto profile = Plugin::instance().profile(measured);
    return profile ? *profile : profile.error().message;
  });
}

void ebb_grappler_forget_reports() { Plugin::instance().forget_reports(); }

void ebb_grappler_free(char* text) { release(text); }

}  // extern "C"

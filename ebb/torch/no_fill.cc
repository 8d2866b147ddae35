#include "ebb/torch/no_fill.h"

#include <mutex>

#include <ATen/Context.h>

namespace ebb::torch {
namespace {

std::mutex mutex;
int running = 0;
bool as_it_was = false;

}  // namespace

NoFill::NoFill() {
  const std::scoped_lock lock(mutex);
  if (running++ > 0) return;
  as_it_was = at::globalContext().deterministicFillUninitializedMemory();
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

NoFill::~NoFill() {
  const std::scoped_lock lock(mutex);
  if (--running == 0) at::globalContext().setDeterministicFillUninitializedMemory(as_it_was);
}

}  // namespace ebb::torch

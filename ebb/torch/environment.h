// What decides, beside its signature, what a PyTorch operator asks for and how long it takes, in
// words: hardware, versions, settings of this process.
#pragma once

#include <c10/core/Device.h>

#include "ebb/exec/backend.h"
#include "ebb/exec/measurement_file.h"

namespace ebb::torch {

// As it is now: settings may change until the step is made.
exec::Environment environment_of(c10::Device device, const exec::Backend& backend);

}  // namespace ebb::torch

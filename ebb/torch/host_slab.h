// The host memory of a step: one block for what is swapped out.
#pragma once

#include <memory>

#include "ebb/base/result.h"
#include "ebb/base/units.h"
#include "ebb/exec/arena.h"
#include "ebb/exec/backend.h"

namespace ebb::torch {

// kInfeasible where there is not so much host memory, or `reserved` besides, or it cannot be
// pinned; the error says what helps. `tell` may be null, and hears how many GiB are there.
[[nodiscard]] Result<std::shared_ptr<const exec::Arena>> make_host_slab(
    exec::Backend& backend, Bytes size, Bytes reserved, const exec::TellPieces& tell);

}  // namespace ebb::torch

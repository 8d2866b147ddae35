#include "ebb/torch/host_slab.h"

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "ebb/exec/host_memory.h"

namespace ebb::torch {

Result<std::shared_ptr<const exec::Arena>> make_host_slab(exec::Backend& backend, Bytes size,
                                                          Bytes reserved,
                                                          const exec::TellPieces& tell) {
  constexpr std::string_view kRemedy =
      "give a host budget below that, so that more is computed again, or a larger budget, so that "
      "less is swapped out, or end what else uses the memory";
  // A system that promises more memory than there is would end some process later instead.
  const Bytes available = exec::available_host_memory();
  if (size.count > 0 && size + reserved > available) {
    const auto besides = reserved.count == 0
                             ? std::string()
                             : fmt::format(", besides the arena of {}", to_human(reserved));
    return fail(ErrorKind::kInfeasible,
                fmt::format("what is swapped out needs {} of host memory{}, and {} are available; "
                            "{}",
                            to_human(size), besides, to_human(available), kRemedy));
  }
  auto slab = backend.make_host_slab(size, tell);
  if (!slab) {
    slab.error().message =
        fmt::format("for what is swapped out, {}; {}", slab.error().message, kRemedy);
    return fail(std::move(slab.error()));
  }
  return std::make_shared<const exec::Arena>(*std::move(slab));
}

}  // namespace ebb::torch

// A profile out of what somebody else's executor took for operations that it knows by name.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "ebb/base/result.h"
#include "ebb/base/units.h"
#include "ebb/graph/graph.h"
#include "ebb/plan/device.h"
#include "ebb/plan/profile.h"

namespace ebb {

struct MeasuredOperation {
  std::string name;
  Duration time{0};
  std::optional<Bytes> workspace;  // where it was not measured, the device's numbers say it
};

// Of a signature the median of its times and the largest workspace. A name is that of the last
// graph that has it: the same model with another batch size has the same names. Names that no graph
// has are passed over, as those of clones; kUsage where none is left.
[[nodiscard]] Result<Profile> make_profile(std::span<const std::shared_ptr<const Graph>> graphs,
                                           const Device& device,
                                           std::span<const MeasuredOperation> measured);

}  // namespace ebb

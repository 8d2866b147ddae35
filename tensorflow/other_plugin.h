// Another Grappler plug-in in the process: TensorFlow takes one for each type of device, and ends
// the process when a second one comes for the same.
#pragma once

#include <string>

namespace ebb::grappler {

// Why this library must not be registered for a device that the other one may have; empty when it
// may. The other is a copy of this library that TensorFlow has loaded before, as of a package and
// of a build tree, or anybody's plug-in: it does not say for which device it is.
std::string reason_not_to_register();

}  // namespace ebb::grappler

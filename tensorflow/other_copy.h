// Another copy of this library in the process, as of a package and of a build tree: TensorFlow ends
// the process when both are registered.
#pragma once

#include <string>

namespace ebb::grappler {

// The path of one that TensorFlow has loaded before this one; empty when there is none.
std::string find_other_copy();

}  // namespace ebb::grappler

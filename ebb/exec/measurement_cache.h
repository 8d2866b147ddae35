// Measurements of earlier processes: one file in the cache for each environment.
//
//   LoadedMeasurements known = load_measurements(cache, environment);
//   MeasuredOnce kernels(torch_kernels, known.file.operations);
//   ...
//   save_measurements(cache, known.file);
#pragma once

#include <string>

#include "ebb/exec/cache.h"
#include "ebb/exec/measurement_file.h"

namespace ebb::exec {

struct LoadedMeasurements {
  MeasurementFile file;  // of this environment; nothing measured where there is no file
  std::string note;      // for people: why a file that is there is of no use. Empty: nothing to say
};

[[nodiscard]] LoadedMeasurements load_measurements(const Cache& cache, Environment environment);

// Adds what is new to what others have written meanwhile; where both have something, what is new
// stays. A file that is of no use is replaced. Without anything new nothing is written. A file that
// would have more than 20,000 operations begins anew, with those that this process has run.
void save_measurements(const Cache& cache, const MeasurementFile& file);

// "measured-8f14e45fceea167a.json"
std::string file_name(const Environment& environment);

}  // namespace ebb::exec

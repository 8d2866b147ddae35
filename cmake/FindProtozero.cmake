# protozero::protozero, headers only: reads and writes protobuf's wire format. Distributions ship no CMake package for it.
find_path(PROTOZERO_INCLUDE_DIR protozero/pbf_reader.hpp)
mark_as_advanced(PROTOZERO_INCLUDE_DIR)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Protozero REQUIRED_VARS PROTOZERO_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libprotozero-dev, or run scripts/setup build")
if(Protozero_FOUND AND NOT TARGET protozero::protozero)
  add_library(protozero::protozero INTERFACE IMPORTED)
  target_include_directories(protozero::protozero SYSTEM INTERFACE "${PROTOZERO_INCLUDE_DIR}")
endif()

# The installed package: find_package(ebb) gives ebb::core and ebb::exec.
include(CMakePackageConfigHelpers)

set(EBB_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/ebb")

install(TARGETS ebb_core ebb_exec
  EXPORT ebbTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}"
  FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT ebbTargets NAMESPACE ebb:: DESTINATION "${EBB_PACKAGE_DIR}")

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/ebbConfig.cmake.in" "${PROJECT_BINARY_DIR}/ebbConfig.cmake"
  INSTALL_DESTINATION "${EBB_PACKAGE_DIR}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/ebbConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(
  FILES "${PROJECT_BINARY_DIR}/ebbConfig.cmake" "${PROJECT_BINARY_DIR}/ebbConfigVersion.cmake"
  DESTINATION "${EBB_PACKAGE_DIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/devices" DESTINATION "${CMAKE_INSTALL_DATADIR}/ebb"
  FILES_MATCHING PATTERN "*.json")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")

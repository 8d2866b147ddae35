# What every target of the project has in common.

# ebb_target(target): warnings, sanitizers, and includes written from the root ("ebb/graph/graph.h").
function(ebb_target target)
  ebb_warnings(${target})
  ebb_sanitizers(${target})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
  set_property(GLOBAL APPEND PROPERTY EBB_TARGETS ${target})
endfunction()

# ebb_gtest(target LABEL label SOURCES file... [LIBRARIES target...] [ARGS arg...]): a GoogleTest program and
# its one ctest entry, which leaves the results of the single cases in <build>/results/<target>.xml.
function(ebb_gtest target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LABEL" "SOURCES;LIBRARIES;ARGS")
  add_executable(${target} ${arg_SOURCES})
  ebb_target(${target})
  target_link_libraries(${target} PRIVATE ebb::core ${arg_LIBRARIES} GTest::gmock_main)
  add_test(NAME ${target} COMMAND ${target} ${arg_ARGS} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set_tests_properties(${target} PROPERTIES
    LABELS ${arg_LABEL}
    ENVIRONMENT "EBB_CACHE=off;GTEST_OUTPUT=xml:${PROJECT_BINARY_DIR}/results/${target}.xml")
endfunction()

# Source lists are written by hand; this finds the file that was forgotten (most of all, a test that never runs).
function(ebb_check_every_source_is_built)
  if(NOT (EBB_BUILD_TESTS AND EBB_BUILD_TOOLS AND EBB_BUILD_EXAMPLES AND EBB_BUILD_BENCH))
    return()
  endif()
  set(built)
  get_property(targets GLOBAL PROPERTY EBB_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(folder ${target} SOURCE_DIR)
    get_target_property(sources ${target} SOURCES)
    foreach(source IN LISTS sources)
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${folder}" NORMALIZE)
      list(APPEND built "${source}")
    endforeach()
  endforeach()
  file(GLOB_RECURSE forgotten CONFIGURE_DEPENDS
    "${PROJECT_SOURCE_DIR}/ebb/*.cc" "${PROJECT_SOURCE_DIR}/tools/*.cc" "${PROJECT_SOURCE_DIR}/examples/*.cc"
    "${PROJECT_SOURCE_DIR}/bench/*.cc" "${PROJECT_SOURCE_DIR}/python/*.cc" "${PROJECT_SOURCE_DIR}/tensorflow/*.cc"
    "${PROJECT_SOURCE_DIR}/tests/*.cc")
  list(FILTER forgotten EXCLUDE REGEX "/tests/(consumer|fuzz)/")  # built by themselves
  if(NOT EBB_BUILD_TORCH)
    list(FILTER forgotten EXCLUDE REGEX "/(ebb/torch|tests/torch|tools/ebb-run)/|/python/src/torch_")
  endif()
  if(TARGET ebb::cuda)
    list(FILTER forgotten EXCLUDE REGEX "/gpu_none.cc$")
  else()
    list(FILTER forgotten EXCLUDE REGEX "/ebb/exec/cuda_|/gpu_cuda.cc$")
  endif()
  if(NOT EBB_CUDA_HEADERS_COMPILE)
    list(FILTER forgotten EXCLUDE REGEX "/tests/exec/(cuda_|threaded_cuda)")
  endif()
  if(NOT EBB_BUILD_TENSORFLOW)
    list(FILTER forgotten EXCLUDE REGEX "^${PROJECT_SOURCE_DIR}/tensorflow/")
  endif()
  if(NOT EBB_BUILD_PYTHON)
    list(FILTER forgotten EXCLUDE REGEX "/python/")
  endif()
  list(REMOVE_ITEM forgotten ${built})
  if(forgotten)
    set(severity WARNING)
    if(EBB_WERROR)
      set(severity FATAL_ERROR)
    endif()
    list(JOIN forgotten "\n  " forgotten)
    message(${severity} "In no source list of any CMakeLists.txt:\n  ${forgotten}")
  endif()
endfunction()

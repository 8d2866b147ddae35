# cmake -DBUILD=.. -DWORK=.. -DPROJECT=.. -DGENERATOR=.. -DCOMPILER=.. -DCONFIG=.. -P run.cmake
file(REMOVE_RECURSE "${WORK}")

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run("${CMAKE_COMMAND}" --install "${BUILD}" --config "${CONFIG}" --prefix "${WORK}/prefix")
run("${CMAKE_COMMAND}" -S "${PROJECT}" -B "${WORK}/build" -G "${GENERATOR}"
  "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_BUILD_TYPE=${CONFIG}" "-DCMAKE_PREFIX_PATH=${WORK}/prefix")

# Not another Ebb that happens to be installed on this machine.
file(STRINGS "${WORK}/build/CMakeCache.txt" found REGEX "^ebb_DIR:")
if(NOT found MATCHES "=${WORK}/prefix/")
  message(FATAL_ERROR "find_package(ebb) found another package: ${found}")
endif()

run("${CMAKE_COMMAND}" --build "${WORK}/build" --config "${CONFIG}")
find_program(consumer consumer PATHS "${WORK}/build" "${WORK}/build/${CONFIG}" NO_DEFAULT_PATH REQUIRED)
run("${consumer}")

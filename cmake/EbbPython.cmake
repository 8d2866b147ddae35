# The Python of this build, Python_EXECUTABLE: its environment has torch and nanobind, and the bindings are built
# for it. In a wheel build it is the one that builds the wheel; otherwise the one of build/venv, which scripts/setup
# makes; otherwise whichever CMake finds.
set(EBB_PYTHON "" CACHE FILEPATH "The Python to build for (empty: build/venv where it exists, else the one found)")

if(EBB_PYTHON)
  set(Python_EXECUTABLE "${EBB_PYTHON}")
elseif(NOT DEFINED SKBUILD AND EXISTS "${PROJECT_SOURCE_DIR}/build/venv/bin/python")
  set(Python_EXECUTABLE "${PROJECT_SOURCE_DIR}/build/venv/bin/python")
endif()
find_package(Python 3.11 COMPONENTS Interpreter QUIET)

# ebb_ask_python(variable code): what a piece of Python prints, stripped; empty when it fails or there is no Python.
function(ebb_ask_python variable code)
  set(answer "")
  if(Python_Interpreter_FOUND)
    execute_process(COMMAND "${Python_EXECUTABLE}" -c "${code}"
      OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  set(${variable} "${answer}" PARENT_SCOPE)
endfunction()

# ebb_decide(option what reason): settles an option that is ON (required), OFF or AUTO (where it can be), given the
# reason why it cannot be, empty when it can. ON that cannot be is an error; AUTO becomes a normal variable.
function(ebb_decide option what reason)
  if("${${option}}" STREQUAL "AUTO")
    if(reason STREQUAL "")
      set(${option} ON PARENT_SCOPE)
    else()
      message(STATUS "Without ${what}: ${reason}")
      set(${option} OFF PARENT_SCOPE)
    endif()
  elseif(${option} AND NOT reason STREQUAL "")
    message(FATAL_ERROR "${option}=${${option}}: ${reason}")
  endif()
endfunction()

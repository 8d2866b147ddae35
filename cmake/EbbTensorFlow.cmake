# TensorFlow's C headers out of the tensorflow package of a Python environment, for the Grappler plug-in:
#   tensorflow::headers   their folder; nothing is linked, the plug-in finds the functions in the process that loads it
# and EBB_TENSORFLOW_VERSION. Settles EBB_BUILD_TENSORFLOW.
set(EBB_TENSORFLOW_DIR "" CACHE PATH
  "The folder of the tensorflow package to build against (empty: the one Python would import)")

# Not imported (that takes seconds), only located, as torch is.
set(find_tensorflow [[
import importlib.util, pathlib, site, sys
spec = importlib.util.find_spec("tensorflow")
folders = [pathlib.Path(spec.origin).parent] if spec and spec.origin else []
# Where a package is being built, Python sees none but those that building needs.
folders += [pathlib.Path(folder, "tensorflow") for folder in site.getsitepackages([sys.prefix, sys.base_prefix])]
print(next((folder for folder in folders if (folder / "include" / "tensorflow" / "c").is_dir()), ""))
]])
set(find_tensorflow_version [[
import importlib.metadata
names = importlib.metadata.packages_distributions().get("tensorflow", [])
print(next((importlib.metadata.version(name) for name in names), "of an unknown version"))
]])

# Sets EBB_TENSORFLOW_ROOT and EBB_TENSORFLOW_VERSION, or `reason` to why there are no headers to build with.
function(ebb_find_tensorflow reason)
  set(remedy "scripts/setup build installs one into build/venv; EBB_PYTHON names another environment's")
  set(tensorflow "${EBB_TENSORFLOW_DIR}")
  if(NOT tensorflow)
    if(NOT Python_Interpreter_FOUND)
      set(${reason} "there is no Python 3.11 or newer (${remedy})" PARENT_SCOPE)
      return()
    endif()
    ebb_ask_python(tensorflow "${find_tensorflow}")
  endif()
  if(NOT tensorflow)
    set(${reason} "${Python_EXECUTABLE} has no tensorflow (${remedy})" PARENT_SCOPE)
    return()
  endif()
  if(NOT EXISTS "${tensorflow}/include/tensorflow/c/experimental/grappler/grappler.h")
    set(${reason} "${tensorflow} lacks include/tensorflow/c/experimental/grappler/grappler.h (${remedy})" PARENT_SCOPE)
    return()
  endif()
  ebb_ask_python(version "${find_tensorflow_version}")
  set(${reason} "" PARENT_SCOPE)
  set(EBB_TENSORFLOW_ROOT "${tensorflow}" PARENT_SCOPE)
  set(EBB_TENSORFLOW_VERSION "${version}" PARENT_SCOPE)
endfunction()

if(NOT EBB_BUILD_TENSORFLOW)
  return()
elseif(EBB_BUILD_TENSORFLOW STREQUAL "AUTO" AND (NOT PROJECT_IS_TOP_LEVEL OR EBB_SANITIZE OR EBB_BUILD_FUZZERS))
  set(EBB_BUILD_TENSORFLOW OFF)
  return()
endif()
ebb_find_tensorflow(reason)
ebb_decide(EBB_BUILD_TENSORFLOW "TensorFlow" "${reason}")
if(NOT EBB_BUILD_TENSORFLOW)
  return()
endif()
message(STATUS "With TensorFlow ${EBB_TENSORFLOW_VERSION}: ${EBB_TENSORFLOW_ROOT}")

add_library(tensorflow::headers INTERFACE IMPORTED)
target_include_directories(tensorflow::headers SYSTEM INTERFACE "${EBB_TENSORFLOW_ROOT}/include")

# libtorch out of the torch package of a Python environment:
#   libtorch::c10         tensors' foundations: devices, allocators, streams
#   libtorch::torch_cpu   ATen, the dispatcher, CPU kernels
#   libtorch::torch       the same with CUDA kernels, loaded even where no symbol of theirs is named
#   libtorch::c10_cuda    CUDA's allocator and streams; not there in a torch without CUDA
#   libtorch::cudart      the CUDA runtime that such a torch brings along
# and EBB_TORCH_VERSION. The package's own find_package(Torch) is not used: it fails where there is no CUDA toolkit, and
# none is needed, neither here nor by what links these.
set(EBB_TORCH_DIR "" CACHE PATH "The folder of the torch package to build against (empty: the one Python would import)")

# Not imported (that takes seconds), only located. A build that pip isolates does not see the environment it is for, but
# sysconfig still names its folder: the torch that is there is the one that the result will run with.
set(find_torch [[
import importlib.util, pathlib, sysconfig
spec = importlib.util.find_spec("torch")
folders = [pathlib.Path(spec.origin).parent] if spec and spec.origin else []
folders.append(pathlib.Path(sysconfig.get_path("platlib"), "torch"))
print(next((folder for folder in folders if (folder / "version.py").exists()), ""))
]])

# Sets EBB_TORCH_ROOT and EBB_TORCH_VERSION, or `reason` to why there is no libtorch to build with.
function(ebb_find_torch reason)
  set(remedy "scripts/setup build installs one into build/venv; EBB_PYTHON names another environment's")
  set(torch "${EBB_TORCH_DIR}")
  if(NOT torch)
    if(NOT Python_Interpreter_FOUND)
      set(${reason} "there is no Python 3.11 or newer (${remedy})" PARENT_SCOPE)
      return()
    endif()
    ebb_ask_python(torch "${find_torch}")
  endif()
  if(NOT torch)
    set(${reason} "${Python_EXECUTABLE} has no torch (${remedy})" PARENT_SCOPE)
    return()
  endif()
  set(version "")
  if(EXISTS "${torch}/version.py")
    file(STRINGS "${torch}/version.py" line REGEX "^__version__ *=")
    string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+[^'\"]*" version "${line}")
  endif()
  if(NOT version MATCHES "^2\\.11\\.")
    set(${reason} "Ebb is built with torch 2.11, and ${torch} is no such one: ${version} (${remedy})" PARENT_SCOPE)
    return()
  endif()
  foreach(file IN ITEMS lib/libc10.so lib/libtorch_cpu.so include/ATen/ATen.h)
    if(NOT EXISTS "${torch}/${file}")
      set(${reason} "torch ${version} in ${torch} lacks ${file}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${reason} "" PARENT_SCOPE)
  set(EBB_TORCH_ROOT "${torch}" PARENT_SCOPE)
  set(EBB_TORCH_VERSION "${version}" PARENT_SCOPE)
endfunction()

# ebb_libtorch(name [INCLUDES folder...] [LIBRARIES target...]): libtorch::name.
function(ebb_libtorch name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "INCLUDES;LIBRARIES")
  add_library(libtorch::${name} SHARED IMPORTED)
  set_target_properties(libtorch::${name} PROPERTIES IMPORTED_LOCATION "${EBB_TORCH_ROOT}/lib/lib${name}.so")
  target_include_directories(libtorch::${name} INTERFACE ${arg_INCLUDES})
  target_link_libraries(libtorch::${name} INTERFACE ${arg_LIBRARIES})
endfunction()

if(NOT EBB_BUILD_TORCH)
  return()
elseif(EBB_BUILD_TORCH STREQUAL "AUTO" AND (NOT PROJECT_IS_TOP_LEVEL OR EBB_SANITIZE OR EBB_BUILD_FUZZERS))
  set(EBB_BUILD_TORCH OFF)
  return()
endif()
ebb_find_torch(reason)
ebb_decide(EBB_BUILD_TORCH "PyTorch" "${reason}")
if(NOT EBB_BUILD_TORCH)
  return()
endif()
message(STATUS "With PyTorch ${EBB_TORCH_VERSION}: ${EBB_TORCH_ROOT}")

# torch ships the headers of its own fmt beside ATen's; what we link is the system's, so torch's folder goes behind the
# system's (and counts as one: our warnings are not for its headers). Nothing of torch may then be found in those.
foreach(folder IN LISTS CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
  if(EXISTS "${folder}/ATen" OR EXISTS "${folder}/c10")
    message(FATAL_ERROR "${folder} has headers of another libtorch, which would be taken instead of those of torch "
      "${EBB_TORCH_VERSION}: remove that package (libtorch-dev?), or build without PyTorch (-DEBB_BUILD_TORCH=OFF)")
  endif()
endforeach()
ebb_libtorch(c10)
target_compile_options(libtorch::c10 INTERFACE "SHELL:-idirafter \"${EBB_TORCH_ROOT}/include\"")
# 2.11 exists with the new string and list of libstdc++ only.
target_compile_definitions(libtorch::c10 INTERFACE _GLIBCXX_USE_CXX11_ABI=1)
ebb_libtorch(torch_cpu LIBRARIES libtorch::c10)
if(EXISTS "${EBB_TORCH_ROOT}/lib/libc10_cuda.so")
  ebb_libtorch(c10_cuda INCLUDES ${EBB_CUDA_HEADERS} LIBRARIES libtorch::c10)
  file(GLOB cuda_runtime "${EBB_TORCH_ROOT}/../nvidia/cu*/lib/libcudart.so.*")
  if(NOT EBB_CUDA_HEADERS_COMPILE)
    message(WARNING "Without GPUs, which this torch could use: there are no headers of CUDA's that compile "
      "(pip install nvidia-cuda-crt==13.0.88 in torch's environment, or name them: EBB_CUDA_HEADERS)")
  elseif(cuda_runtime)
    list(GET cuda_runtime 0 cuda_runtime)
    add_library(libtorch::cudart SHARED IMPORTED)
    set_target_properties(libtorch::cudart PROPERTIES IMPORTED_LOCATION "${cuda_runtime}")
    target_include_directories(libtorch::cudart SYSTEM INTERFACE ${EBB_CUDA_HEADERS})
  endif()
endif()

# What registers the kernels is an initializer that nobody calls by name.
set(CMAKE_LINK_LIBRARY_USING_ebb_always_SUPPORTED TRUE)
set(CMAKE_LINK_LIBRARY_USING_ebb_always
  "LINKER:--push-state,--no-as-needed" "<LINK_ITEM>" "LINKER:--pop-state")
add_library(libtorch::with_kernels SHARED IMPORTED)
set_target_properties(libtorch::with_kernels PROPERTIES IMPORTED_LOCATION "${EBB_TORCH_ROOT}/lib/libtorch.so")
add_library(libtorch::torch INTERFACE IMPORTED)
target_link_libraries(libtorch::torch INTERFACE
  libtorch::torch_cpu "$<LINK_LIBRARY:ebb_always,libtorch::with_kernels>")

# CUDA's headers. PyTorch's wheels bring them along in nvidia/cu13/include, less the folder crt, which is in a package of
# its own (nvidia-cuda-crt) and may lie in another environment where pip isolates a build; a toolkit has all of them.
#   EBB_CUDA_HEADERS           their folders, most often one
#   EBB_CUDA_HEADERS_COMPILE   whether they do, with all that they include
include(CheckIncludeFileCXX)

set(find_cuda_headers [[
import pathlib, sys, sysconfig
torch = pathlib.Path("@EBB_TORCH_DIR@" or sysconfig.get_path("platlib") + "/torch")
roots = dict.fromkeys([str(torch.parent), *sys.path])
folders = [folder for root in roots for folder in sorted(pathlib.Path(root).glob("nvidia/cu*/include"))]
runtime = next(folder for folder in folders if (folder / "cuda_runtime_api.h").exists())
same = [folder for folder in folders if folder.parent.name == runtime.parent.name]
parts = [runtime, *(folder for folder in same if (folder / "crt" / "host_defines.h").exists())]
print(";".join(dict.fromkeys(map(str, parts))))
]])

set(EBB_CUDA_HEADERS "" CACHE STRING "The folders of CUDA's headers (empty: PyTorch's, or else a toolkit's)")
if(NOT EBB_CUDA_HEADERS)
  string(REPLACE "@EBB_TORCH_DIR@" "${EBB_TORCH_DIR}" find_cuda_headers "${find_cuda_headers}")
  ebb_ask_python(EBB_CUDA_HEADERS "${find_cuda_headers}")
endif()
if(NOT EBB_CUDA_HEADERS)
  find_path(EBB_CUDA_TOOLKIT_HEADERS cuda_runtime_api.h HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES include)
  mark_as_advanced(EBB_CUDA_TOOLKIT_HEADERS)
  if(EBB_CUDA_TOOLKIT_HEADERS)
    set(EBB_CUDA_HEADERS "${EBB_CUDA_TOOLKIT_HEADERS}")
  endif()
endif()
set(CMAKE_REQUIRED_INCLUDES "${EBB_CUDA_HEADERS}")
set(CMAKE_REQUIRED_QUIET ON)
check_include_file_cxx(cuda_runtime_api.h EBB_CUDA_HEADERS_COMPILE)
unset(CMAKE_REQUIRED_QUIET)
unset(CMAKE_REQUIRED_INCLUDES)
if(NOT EBB_CUDA_HEADERS_COMPILE)
  unset(EBB_CUDA_HEADERS_COMPILE CACHE)  # what is missing may come
endif()

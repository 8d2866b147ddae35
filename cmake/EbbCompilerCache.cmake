# Compiles through ccache where it is installed. A launcher named by the user wins.
if(NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(EBB_CCACHE ccache)
  mark_as_advanced(EBB_CCACHE)
  if(EBB_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${EBB_CCACHE}")
  endif()
endif()

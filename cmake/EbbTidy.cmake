# EBB_CLANG_TIDY: a clang-tidy to run on every source as it is compiled, so that only what changed is looked at
# again. A change of .clang-tidy changes the command line and with it every result.
set(EBB_CLANG_TIDY "" CACHE FILEPATH "clang-tidy to run beside the compiler (empty: none)")

if(EBB_CLANG_TIDY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/.clang-tidy")
  file(SHA1 "${PROJECT_SOURCE_DIR}/.clang-tidy" rules)
  set(CMAKE_CXX_CLANG_TIDY
    "${EBB_CLANG_TIDY}" --quiet
    --extra-arg=-Wno-unknown-warning-option  # warnings that only gcc knows
    --extra-arg=-DEBB_TIDY_RULES=${rules})
endif()

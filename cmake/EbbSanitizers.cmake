# ebb_sanitizers(target): what EBB_SANITIZE and EBB_BUILD_FUZZERS ask for. A finding ends the program:
# one that is only printed is one that no test sees.
if("thread" IN_LIST EBB_SANITIZE AND NOT EBB_SANITIZE STREQUAL "thread")
  message(FATAL_ERROR "EBB_SANITIZE=${EBB_SANITIZE}: thread cannot be combined with another sanitizer")
endif()
if(EBB_BUILD_FUZZERS AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "EBB_BUILD_FUZZERS needs clang for libFuzzer, and the compiler is ${CMAKE_CXX_COMPILER}")
endif()

function(ebb_sanitizers target)
  if(EBB_SANITIZE)
    list(JOIN EBB_SANITIZE "," sanitizers)
    set(flags -fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_compile_options(${target} PRIVATE ${flags})
    target_link_options(${target} PRIVATE ${flags})
    target_compile_definitions(${target} PRIVATE EBB_SANITIZED)
    if("thread" IN_LIST EBB_SANITIZE)
      target_compile_definitions(${target} PRIVATE EBB_THREAD_SANITIZED)
    endif()
  endif()
  if(EBB_BUILD_FUZZERS)
    # Coverage for libFuzzer; the fuzzers themselves link its main (tests/fuzz).
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  # Bounds and null checks of libstdc++ wherever speed is not the point. No change of ABI.
  target_compile_definitions(${target} PRIVATE
    $<$<OR:$<CONFIG:Debug>,$<BOOL:${EBB_SANITIZE}>>:_GLIBCXX_ASSERTIONS>)
endfunction()

# cmake -DFUZZER=.. -DWORK=.. -DSEEDS=.. -DWORDS=.. -P run.cmake
set(seconds 30)
if(NOT "$ENV{FUZZ_SECONDS}" STREQUAL "")
  set(seconds $ENV{FUZZ_SECONDS})
endif()

file(MAKE_DIRECTORY "${WORK}/corpus" "${WORK}/crashes")
execute_process(
  COMMAND "${FUZZER}" -max_total_time=${seconds} -timeout=10 -rss_limit_mb=2048 -max_len=4096
    -use_value_profile=1 -print_final_stats=1 "-artifact_prefix=${WORK}/crashes/" "-dict=${WORDS}"
    "${WORK}/corpus" "${SEEDS}"
  COMMAND_ECHO STDOUT
  COMMAND_ERROR_IS_FATAL ANY)

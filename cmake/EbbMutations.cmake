# With EBB_MUTATIONS, the sources that decide (may this be rewritten, is this right, is this the same) are compiled with
# a switch at each of their conditions (tests/mutation/conditions.py), which EBB_MUTANT=SOURCE#NUMBER turns off when a
# program starts. Never for use: only so that tests can be seen to fail.
option(EBB_MUTATIONS "Build conditions that can be switched off one by one, for tests/mutation" OFF)

# ebb_mutate(target list): compiles the sources of the list, in the target's folder, with their switches.
function(ebb_mutate target sources)
  set(script "${PROJECT_SOURCE_DIR}/tests/mutation/conditions.py")
  get_target_property(all ${target} SOURCES)
  foreach(source IN LISTS sources)
    list(FIND all "${source}" found)
    if(found EQUAL -1)
      message(FATAL_ERROR "${target} has no source ${source} to mutate")
    endif()
    set(original "${CMAKE_CURRENT_SOURCE_DIR}/${source}")
    set(mutated "${CMAKE_CURRENT_BINARY_DIR}/mutated/${source}")
    cmake_path(GET mutated PARENT_PATH folder)
    file(MAKE_DIRECTORY "${folder}")
    add_custom_command(OUTPUT "${mutated}"
      COMMAND "${Python_EXECUTABLE}" "${script}" "${original}" "${mutated}"
      DEPENDS "${original}" "${script}"
      VERBATIM)
    # What is not checked any more may reach outside of a vector: say so instead of going on.
    set_source_files_properties("${mutated}" PROPERTIES COMPILE_DEFINITIONS _GLIBCXX_ASSERTIONS COMPILE_OPTIONS -w)
    list(TRANSFORM all REPLACE "^${source}$" "${mutated}")
  endforeach()
  set_target_properties(${target} PROPERTIES SOURCES "${all}")
endfunction()

# ebb_embed(target header TYPE type FILES file...): a header that the target may include, with a line
# `type{"name", R"(text)"},` for each file, named without folder and suffix. It is written when CMake runs, and again
# when a file has changed.
function(ebb_embed target header)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "TYPE" "FILES")
  set(folder "${PROJECT_BINARY_DIR}/embedded")
  set(lines "// Written by CMake (EbbEmbed.cmake).\n")
  foreach(file IN LISTS arg_FILES)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    file(READ "${file}" text)
    cmake_path(GET file STEM name)
    string(APPEND lines "${arg_TYPE}{\"${name}\", R\"embedded(${text})embedded\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT "${folder}/${header}" CONTENT "${lines}" @ONLY)
  target_include_directories(${target} PRIVATE "${folder}")
endfunction()

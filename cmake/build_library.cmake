# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Run by the target lot_build: cargo, then the two libraries under the names that C programs know.

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE failure)
  if(failure)
    list(JOIN ARGV " " line)
    message(FATAL_ERROR "failed (${failure}): ${line}")
  endif()
endfunction()

# One rustc for both kinds and none for the rlib, which would rule out link-time optimisation.
run("${CMAKE_COMMAND}" -E env "CARGO_TARGET_DIR=${TARGET_DIR}"
  "${CARGO}" rustc --quiet --locked --manifest-path "${PACKAGE}/Cargo.toml" --profile "${PROFILE}"
  --lib --crate-type staticlib,cdylib)

set(profile_dir "${PROFILE}")
if(PROFILE STREQUAL "dev")
  set(profile_dir "debug")
endif()
set(built "${TARGET_DIR}/${profile_dir}/liblive_object_tracker")

get_filename_component(library_dir "${STATIC_FILE}" DIRECTORY)
file(MAKE_DIRECTORY "${library_dir}")

# Shared: rustc exports the C functions only.
file(COPY_FILE "${built}.so" "${SHARED_FILE}" ONLY_IF_DIFFERENT)
get_filename_component(shared_name "${SHARED_FILE}" NAME)
file(CREATE_LINK "${shared_name}" "${library_dir}/${SONAME}" SYMBOLIC)
file(CREATE_LINK "${SONAME}" "${library_dir}/liblot.so" SYMBOLIC)

# Static: rustc's archive carries the Rust runtime with global names, such as rust_eh_personality, that
# a second Rust library in the same program defines as well. So link what the C functions need into one
# object, dissolve its COMDAT groups (the linker would merge them with the other library's by name), and
# make all other names local.
if(EXISTS "${STATIC_FILE}" AND NOT "${built}.a" IS_NEWER_THAN "${STATIC_FILE}")
  return()
endif()
execute_process(
  COMMAND "${NM}" --extern-only --defined-only --format=posix "${built}.a"
  OUTPUT_VARIABLE symbols ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "(^|\n)lot_[a-z0-9_]+ T" roots "${symbols}")
if(NOT roots)
  message(FATAL_ERROR "${built}.a defines no lot_ function")
endif()
list(TRANSFORM roots REPLACE "^\n?(.*) T$" "--undefined=\\1")
set(object "${library_dir}/lot.o")
run("${LD}" --relocatable --force-group-allocation ${roots} -o "${object}" "${built}.a")
run("${OBJCOPY}" --wildcard "--keep-global-symbol=lot_*" "${object}")
file(REMOVE "${STATIC_FILE}")
run("${AR}" qcsD "${STATIC_FILE}" "${object}")
file(REMOVE "${object}")

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Run by the target lot_build: cargo, then the two libraries under the names that C programs know.

# One rustc for both kinds and none for the rlib, which would rule out link-time optimisation.
execute_process(
  COMMAND "${CMAKE_COMMAND}" -E env "CARGO_TARGET_DIR=${TARGET_DIR}"
    "${CARGO}" rustc --quiet --locked --manifest-path "${PACKAGE}/Cargo.toml" --profile "${PROFILE}"
    --lib --crate-type staticlib,cdylib
  COMMAND_ERROR_IS_FATAL ANY)

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

# Static.
set(recipe "${CMAKE_CURRENT_LIST_DIR}/localize.cmake")
if("${built}.a" IS_NEWER_THAN "${STATIC_FILE}" OR "${recipe}" IS_NEWER_THAN "${STATIC_FILE}")
  set(INPUT "${built}.a")
  set(OUTPUT "${STATIC_FILE}")
  set(PREFIX "lot_")
  include("${recipe}")
endif()

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Builds the crate through cargo and wraps the result in LiveObjectTracker::lot (static) and
# LiveObjectTracker::lot_shared.

find_program(LOT_CARGO cargo REQUIRED HINTS "$ENV{HOME}/.cargo/bin")
# The two steps that keep other Rust code in the same program apart from ours are GNU ld's and
# objcopy's, whatever links the program itself.
find_program(LOT_LD NAMES ld.bfd ld REQUIRED)
find_package(Threads REQUIRED)

set(LOT_LIBRARY_DIR "${PROJECT_BINARY_DIR}/lib")
set(LOT_SONAME "liblot.so.0")
set(LOT_STATIC_FILE "${LOT_LIBRARY_DIR}/liblot.a")
set(LOT_SHARED_FILE "${LOT_LIBRARY_DIR}/liblot.so.${PROJECT_VERSION}")

# Always run: only cargo knows what the crate depends on, and asking it is quick. Files that come out
# the same are left alone, so that nothing is linked again for no reason.
add_custom_target(lot_build ALL
  COMMAND "${CMAKE_COMMAND}"
    "-DCARGO=${LOT_CARGO}"
    "-DPACKAGE=${PROJECT_SOURCE_DIR}"
    "-DPROFILE=${LOT_CARGO_PROFILE}"
    "-DTARGET_DIR=${LOT_CARGO_TARGET_DIR}"
    "-DCC=${CMAKE_C_COMPILER}"
    "-DLD=${LOT_LD}"
    "-DREADELF=${CMAKE_READELF}"
    "-DNM=${CMAKE_NM}"
    "-DOBJCOPY=${CMAKE_OBJCOPY}"
    "-DAR=${CMAKE_AR}"
    "-DSTATIC_FILE=${LOT_STATIC_FILE}"
    "-DSHARED_FILE=${LOT_SHARED_FILE}"
    "-DSONAME=${LOT_SONAME}"
    -P "${CMAKE_CURRENT_LIST_DIR}/build_library.cmake"
  BYPRODUCTS "${LOT_STATIC_FILE}" "${LOT_SHARED_FILE}"
  COMMENT "Building the live object tracker with cargo"
  USES_TERMINAL
  VERBATIM)

add_library(LiveObjectTracker::lot STATIC IMPORTED GLOBAL)
set_target_properties(LiveObjectTracker::lot PROPERTIES
  IMPORTED_LOCATION "${LOT_STATIC_FILE}"
  INTERFACE_INCLUDE_DIRECTORIES "${PROJECT_SOURCE_DIR}/include"
  INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
add_dependencies(LiveObjectTracker::lot lot_build)

add_library(LiveObjectTracker::lot_shared SHARED IMPORTED GLOBAL)
set_target_properties(LiveObjectTracker::lot_shared PROPERTIES
  IMPORTED_LOCATION "${LOT_SHARED_FILE}"
  IMPORTED_SONAME "${LOT_SONAME}"
  INTERFACE_INCLUDE_DIRECTORIES "${PROJECT_SOURCE_DIR}/include")
add_dependencies(LiveObjectTracker::lot_shared lot_build)

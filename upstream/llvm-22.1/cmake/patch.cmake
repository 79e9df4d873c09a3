# Makes the patched copy of upstream's sources: checks that they are the ones the patch was made for,
# copies them, applies the patch.
#
# The whole Bindings/Python header folder is copied, since its headers include one another by relative
# path: all have to come from one place.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

set(LOT_PATCHED_DIR "${CMAKE_CURRENT_BINARY_DIR}/patched")
set(LOT_UPSTREAM_DIR "${LOT_DEV_DIR}/mlir" CACHE PATH
    "Upstream's sources (src/python) and headers (include), as in the package xtc-mlir-dev")

find_program(LOT_GIT git REQUIRED)
file(GLOB lot_patches CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/../patches/*.patch")
set(checksums "${CMAKE_CURRENT_LIST_DIR}/../checksums.sha256")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${lot_patches} "${checksums}")

file(STRINGS "${checksums}" lines)
foreach(line IN LISTS lines)
  if(NOT line MATCHES "^([0-9a-f]+)  (.+)$")
    message(FATAL_ERROR "${checksums}: not a checksum: ${line}")
  endif()
  set(wanted "${CMAKE_MATCH_1}")
  set(path "${CMAKE_MATCH_2}")
  file(SHA256 "${LOT_UPSTREAM_DIR}/${path}" found)
  if(NOT found STREQUAL wanted)
    message(FATAL_ERROR "${LOT_UPSTREAM_DIR}/${path} is not the file that the patch was made for "
                        "(sha256 ${found}, wanted ${wanted}).")
  endif()
endforeach()

# A file whose patched text did not change keeps its time stamp, so that a changed patch rebuilds only
# what it touches.
set(fresh "${CMAKE_CURRENT_BINARY_DIR}/patched.new")
file(REMOVE_RECURSE "${fresh}")
file(MAKE_DIRECTORY "${fresh}/include/mlir/Bindings")
file(COPY "${LOT_UPSTREAM_DIR}/src" DESTINATION "${fresh}" FILES_MATCHING PATTERN "*.cpp" PATTERN "*.h")
file(COPY "${LOT_UPSTREAM_DIR}/include/mlir/Bindings/Python" DESTINATION "${fresh}/include/mlir/Bindings")
foreach(patch IN LISTS lot_patches)
  # Without the ceiling, git would take the enclosing repository for the place to patch and skip all files.
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -E env "GIT_CEILING_DIRECTORIES=${CMAKE_CURRENT_BINARY_DIR}"
            "${LOT_GIT}" apply --unidiff-zero --whitespace=nowarn "${patch}"
    WORKING_DIRECTORY "${fresh}" RESULT_VARIABLE result ERROR_VARIABLE error)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${patch} does not apply:\n${error}")
  endif()
endforeach()
file(GLOB_RECURSE files RELATIVE "${fresh}" "${fresh}/*")
foreach(path IN LISTS files)
  configure_file("${fresh}/${path}" "${LOT_PATCHED_DIR}/${path}" COPYONLY)
endforeach()

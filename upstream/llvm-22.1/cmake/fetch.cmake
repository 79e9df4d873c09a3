# Brings the pinned packages into the build folder. The wheels stay in a cache there, so that only the
# first configure needs the network.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

set(LOT_BINDINGS_WHEELS "${CMAKE_CURRENT_BINARY_DIR}/wheels" CACHE PATH
    "Where the downloaded wheels are kept")

set(LOT_STOCK_DIR "${CMAKE_CURRENT_BINARY_DIR}/stock") # the unmodified Python packages
set(LOT_DEV_DIR "${CMAKE_CURRENT_BINARY_DIR}/dev")     # headers and sources
set(LOT_VENV_DIR "${CMAKE_CURRENT_BINARY_DIR}/venv")   # the interpreter that both wrapper scripts use

function(lot_run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "This command failed (${result}):\n  ${command}\n${output}")
  endif()
endfunction()

# The virtual environment's: the system's Python need not have pip.
set(lot_pip "${LOT_VENV_DIR}/bin/python" -m pip --disable-pip-version-check)
set(fetched "${Python3_EXECUTABLE} ${Python3_VERSION}")
foreach(set stock dev test)
  set(requirements_${set} "${CMAKE_CURRENT_LIST_DIR}/../packages-${set}.txt")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${requirements_${set}}")
  file(SHA256 "${requirements_${set}}" hash)
  string(APPEND fetched " ${hash}")
endforeach()
set(stamp "${CMAKE_CURRENT_BINARY_DIR}/fetched.stamp")
set(found "")
if(EXISTS "${stamp}")
  file(READ "${stamp}" found)
endif()

if(NOT found STREQUAL fetched)
  message(STATUS "Fetching the upstream packages (about 300 MB the first time)")
  file(REMOVE_RECURSE "${LOT_STOCK_DIR}" "${LOT_DEV_DIR}" "${LOT_VENV_DIR}")
  lot_run("${Python3_EXECUTABLE}" -m venv "${LOT_VENV_DIR}")
  set(download ${lot_pip} download --only-binary :all: --find-links "${LOT_BINDINGS_WHEELS}"
               --dest "${LOT_BINDINGS_WHEELS}")
  foreach(set stock dev)
    lot_run(${download} --no-deps --require-hashes -r "${requirements_${set}}")
  endforeach()
  lot_run(${download} -r "${requirements_test}")

  message(STATUS "Unpacking the upstream packages")
  set(offline ${lot_pip} install --no-index --find-links "${LOT_BINDINGS_WHEELS}")
  lot_run(${offline} --no-deps --target "${LOT_STOCK_DIR}" -r "${requirements_stock}")
  lot_run(${offline} --no-deps --no-compile --target "${LOT_DEV_DIR}" -r "${requirements_dev}")
  lot_run(${offline} -r "${requirements_test}")
  file(WRITE "${stamp}" "${fetched}")
endif()

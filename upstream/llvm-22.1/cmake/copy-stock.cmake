# Copies the stock Python package FROM to TO, but for the files in SKIP, which the build makes.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

cmake_minimum_required(VERSION 3.22)
string(REPLACE "," ";" SKIP "${SKIP}")
file(GLOB_RECURSE files RELATIVE "${FROM}" "${FROM}/mlir/*")
foreach(path IN LISTS files)
  get_filename_component(name "${path}" NAME)
  if(path MATCHES "__pycache__" OR name IN_LIST SKIP)
    continue()
  endif()
  get_filename_component(folder "${TO}/${path}" DIRECTORY)
  file(COPY "${FROM}/${path}" DESTINATION "${folder}")
endforeach()
# libMLIRPythonCAPI.so looks for libLLVM.so in ../../llvm/lib.
file(CREATE_LINK "../stock/llvm" "${TO}/llvm" SYMBOLIC)

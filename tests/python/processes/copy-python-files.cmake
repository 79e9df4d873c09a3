# Copies the Python files of the package FROM to TO, and nothing else.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

cmake_minimum_required(VERSION 3.22)
file(GLOB_RECURSE files RELATIVE "${FROM}" "${FROM}/*.py")
foreach(path IN LISTS files)
  get_filename_component(folder "${TO}/${path}" DIRECTORY)
  file(COPY "${FROM}/${path}" DESTINATION "${folder}")
endforeach()

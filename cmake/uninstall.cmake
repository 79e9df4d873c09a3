# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Removes what the last `install` of this build tree put there.

if(NOT EXISTS "${MANIFEST}")
  message(FATAL_ERROR "Nothing was installed from here: there is no ${MANIFEST}")
endif()
file(STRINGS "${MANIFEST}" files)
foreach(file IN LISTS files)
  set(file "$ENV{DESTDIR}${file}")
  message(STATUS "Removing ${file}")
  file(REMOVE "${file}")
endforeach()

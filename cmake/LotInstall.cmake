# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Installs the libraries, the headers, a CMake package and a pkg-config file; all of them still work
# when the installed tree is moved.

include(CMakePackageConfigHelpers)

install(FILES "${LOT_STATIC_FILE}" DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(PROGRAMS "${LOT_SHARED_FILE}" DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(FILES "${LOT_LIBRARY_DIR}/${LOT_SONAME}" "${LOT_LIBRARY_DIR}/liblot.so"
  DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/lot" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/live-object-tracker")

set(LOT_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/LiveObjectTracker")
configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/LiveObjectTrackerConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/LiveObjectTrackerConfig.cmake"
  INSTALL_DESTINATION "${LOT_PACKAGE_DIR}"
  PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
install(TARGETS lot_mlir_link_hooks EXPORT LiveObjectTrackerLinkHooks
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT LiveObjectTrackerLinkHooks NAMESPACE LiveObjectTracker::
  DESTINATION "${LOT_PACKAGE_DIR}")
# While the version starts with 0, a new minor version may break a caller.
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/LiveObjectTrackerConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/LiveObjectTrackerConfig.cmake"
  "${PROJECT_BINARY_DIR}/LiveObjectTrackerConfigVersion.cmake"
  DESTINATION "${LOT_PACKAGE_DIR}")

file(RELATIVE_PATH LOT_PC_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" LOT_PC_PREFIX "${LOT_PC_PREFIX}")
configure_file("${CMAKE_CURRENT_LIST_DIR}/lot.pc.in" "${PROJECT_BINARY_DIR}/lot.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/lot.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

if(PROJECT_IS_TOP_LEVEL)
  add_custom_target(uninstall
    COMMAND "${CMAKE_COMMAND}" "-DMANIFEST=${CMAKE_BINARY_DIR}/install_manifest.txt"
      -P "${CMAKE_CURRENT_LIST_DIR}/uninstall.cmake"
    VERBATIM)
endif()

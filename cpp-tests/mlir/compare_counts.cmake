# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs the same five pipelines under each exact source: the ends that they count must be the same.

foreach(which IN ITEMS FIRST SECOND)
  set(file "${DIRECTORY}/counts_${which}.txt")
  file(REMOVE "${file}")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -E env "LOT_TEST_COUNTS=${file}"
      "${${which}}" --gtest_brief=1 "--gtest_filter=All/Pipelines.*"
    COMMAND_ERROR_IS_FATAL ANY)
  file(STRINGS "${file}" lines)
  list(LENGTH lines count)
  if(NOT count EQUAL 5)
    message(FATAL_ERROR "${${which}} counted ${count} pipelines, not 5")
  endif()
  set(${which}_LINES "${lines}")
endforeach()
if(NOT FIRST_LINES STREQUAL SECOND_LINES)
  message(FATAL_ERROR "The sources differ:\n${FIRST_LINES}\n${SECOND_LINES}")
endif()
list(JOIN FIRST_LINES "\n" text)
message(STATUS "Both sources count the same ends:\n${text}")

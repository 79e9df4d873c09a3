# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Turns a static library INPUT of rustc's into OUTPUT, whose only global names start with PREFIX.
#
# rustc's archive carries the Rust runtime with global names, such as rust_eh_personality, that a second
# Rust library in the same program defines as well. So link what the C functions need into one object,
# dissolve its COMDAT groups (the linker would merge them with the other library's by name), and make all
# other names local.

execute_process(
  COMMAND "${NM}" --extern-only --defined-only --format=posix "${INPUT}"
  OUTPUT_VARIABLE symbols ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "(^|\n)${PREFIX}[a-z0-9_]+ T" roots "${symbols}")
if(NOT roots)
  message(FATAL_ERROR "${INPUT} defines no function whose name starts with ${PREFIX}")
endif()
list(TRANSFORM roots REPLACE "^\n?(.*) T$" "--undefined=\\1")

string(REGEX REPLACE "(^|.*/)lib([^/]*)\\.a$" "\\1\\2.o" object "${OUTPUT}")
execute_process(
  COMMAND "${LD}" --relocatable --force-group-allocation ${roots} -o "${object}" "${INPUT}"
  COMMAND_ERROR_IS_FATAL ANY)
# Bitcode, where there is any, is of no use in a linked object, and linker plugins stumble over it; naming
# the format keeps them from looking.
execute_process(COMMAND "${LD}" --print-output-format
  OUTPUT_VARIABLE format OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
execute_process(
  COMMAND "${OBJCOPY}" "--input-target=${format}" --wildcard "--keep-global-symbol=${PREFIX}*"
    --remove-section=.llvmbc --remove-section=.llvmcmd "${object}"
  COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE "${OUTPUT}")
execute_process(COMMAND "${AR}" qcsD "${OUTPUT}" "${object}" COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE "${object}")

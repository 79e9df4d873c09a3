# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Turns a static library INPUT of rustc's into OUTPUT, whose only global names start with PREFIX and
# are hidden.
#
# rustc's archive carries the Rust runtime with global names, such as rust_eh_personality, that a
# second Rust library in the same program defines as well. So link what the C functions need into
# one object, dissolve its COMDAT groups (the linker would merge them with the other library's by
# name), and make all other names local.
#
# A hidden name is for the binary that the library is linked into. The dynamic linker never sees it,
# so another copy of the library in the same process cannot take its place.

execute_process(
  COMMAND "${NM}" --extern-only --defined-only --format=posix "${INPUT}"
  OUTPUT_VARIABLE symbols ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "(^|\n)${PREFIX}[a-z0-9_]+ [A-Z]" names "${symbols}")
list(TRANSFORM names REPLACE "^\n?(.*) [A-Z]$" "\\1")
if(NOT names)
  message(FATAL_ERROR "${INPUT} defines no name that starts with ${PREFIX}")
endif()
list(TRANSFORM names PREPEND "--undefined=" OUTPUT_VARIABLE roots)

# The linker gives a name the most constraining visibility of all objects that mention it. So one
# object mentions all of them as hidden.
string(REGEX REPLACE "(^|.*/)lib([^/]*)\\.a$" "\\1\\2.o" object "${OUTPUT}")
string(REGEX REPLACE "\\.o$" "_hidden" hidden "${object}")
list(TRANSFORM names REPLACE "(.+)" ".globl \\1\n.hidden \\1\n" OUTPUT_VARIABLE directives)
# An assembler file that does not say so is taken to need an executable stack.
string(JOIN "" directives ${directives} ".section .note.GNU-stack,\"\",%progbits\n")
file(WRITE "${hidden}.s" "${directives}")
execute_process(COMMAND "${CC}" -c -o "${hidden}.o" "${hidden}.s" COMMAND_ERROR_IS_FATAL ANY)

execute_process(
  COMMAND "${LD}" --relocatable --force-group-allocation ${roots} -o "${object}"
    "${hidden}.o" "${INPUT}"
  COMMAND_ERROR_IS_FATAL ANY)
# Bitcode, where there is any, is of no use in a linked object, and linker plugins stumble over it;
# naming the format keeps them from looking.
execute_process(COMMAND "${LD}" --print-output-format
  OUTPUT_VARIABLE format OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
execute_process(
  COMMAND "${OBJCOPY}" "--input-target=${format}" --wildcard "--keep-global-symbol=${PREFIX}*"
    --remove-section=.llvmbc --remove-section=.llvmcmd "${object}"
  COMMAND_ERROR_IS_FATAL ANY)

# Whether the linker at hand did so is seen here, not in somebody's process.
execute_process(COMMAND "${READELF}" --symbols --wide "${object}"
  OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
foreach(name IN LISTS names)
  if(NOT symbols MATCHES " GLOBAL +HIDDEN +[0-9]+ ${name}\n")
    message(FATAL_ERROR "${LD} has not made ${name} a hidden name of ${object}")
  endif()
endforeach()

file(REMOVE "${OUTPUT}")
execute_process(COMMAND "${AR}" qcsD "${OUTPUT}" "${object}" COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE "${object}" "${hidden}.s" "${hidden}.o")

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""unique_to_global.py LIBRARY: makes the "unique" symbols of a 64-bit ELF library ordinary ones, as if it had been
compiled with -fno-gnu-unique or by clang. The loader has one object for all unique symbols of a name in a process, and
two copies of MLIR that share some of their variables do not work, whoever loads them."""

import mmap
import struct
import sys

SHT_DYNSYM, STB_GLOBAL, STB_GNU_UNIQUE = 11, 1, 10

with open(sys.argv[1], "r+b") as file, mmap.mmap(file.fileno(), 0) as data:
    assert data[:5] == b"\x7fELF\x02"
    order = "<" if data[5] == 1 else ">"
    (sections,) = struct.unpack_from(order + "Q", data, 0x28)
    size, count = struct.unpack_from(order + "HH", data, 0x3A)
    changed = 0
    for header in range(sections, sections + size * count, size):
        (kind,) = struct.unpack_from(order + "I", data, header + 4)
        if kind != SHT_DYNSYM:
            continue
        offset, length = struct.unpack_from(order + "QQ", data, header + 24)
        for symbol in range(offset, offset + length, 24):
            info = data[symbol + 4]
            if info >> 4 == STB_GNU_UNIQUE:
                data[symbol + 4] = STB_GLOBAL << 4 | info & 15
                changed += 1
assert changed, "there are none"

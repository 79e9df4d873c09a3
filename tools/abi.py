#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the C interface with the committed list of it, and says what has changed.

The list is cpp-tests/abi/abi.txt: what the shared library exports, the prototypes, the sizes,
alignments and field offsets of the structs, and the values of the constants of lot/lot.h and
lot/mlir.h. lot/mlir_c.h and the C++ headers are inline all through: what they call is in those two.

With --write the list is written anew, and with a new LOT_ABI_VERSION so is cpp-tests/abi/headers:
the headers that the first programs of this ABI were built with. A change that breaks such programs is
refused until that number is raised. Before a release --replace does it all the same.
"""

import argparse
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "include"
LIST = ROOT / "cpp-tests" / "abi" / "abi.txt"
FIRST_HEADERS = ROOT / "cpp-tests" / "abi" / "headers"
HEADERS = ["lot/lot.h", "lot/mlir.h"]
# What an old program includes.
KEPT_HEADERS = [*HEADERS, "lot/lot.hpp"]
VERSION = "constant LOT_ABI_VERSION"
LINE = """# The C interface as tools/abi.py sees it on 64-bit Linux. `make abi` writes this file."""


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


class Interface:
    """What the two headers declare. Reads cbindgen's output, and what follows it."""

    def __init__(self, include):
        text = "\n".join(without_comments((include / header).read_text()) for header in HEADERS)
        self.constants = re.findall(r"^#define (LOT_\w+) (?!\d+\.|\")\S", text, re.M)
        self.constants = [name for name in self.constants if not name.startswith("LOT_VERSION_")]
        self.structs = {
            name: [
                (" ".join(kind.split()), field)
                for kind, field in re.findall(r"([^;]*?)(\w+);", body)
            ]
            for name, body in re.findall(
                r"^(?:typedef )?struct (\w+) \{(.*?)^\}", text, re.M | re.S)
        }
        self.types = re.findall(r"^typedef [^{;(]*\b(\w+);", text, re.M)
        self.callbacks = re.findall(r"^typedef ([^;{(]*)\(\*(\w+)\)\(([^;]*)\);", text, re.M)
        self.functions = re.findall(r"^([\w ]+?[ *]+)(lot_\w+)\(([^;{]*)\);", text, re.M)
        self.objects = sorted(set(re.findall(r"^extern struct \w+ (\w+);", text, re.M)))
        # A declaration that none of these patterns has read would be missing from the list.
        read = {*self.structs, *self.types, *self.objects}
        read |= {name for _, name, _ in self.callbacks + self.functions}
        unread = {name for name in re.findall(r"\blot_\w+\b", text) if name not in read}
        unread -= {name for fields in self.structs.values() for _, name in fields}
        if unread:
            sys.exit(f"tools/abi.py cannot read the declarations of {', '.join(sorted(unread))}")


def prototype(result, parameters):
    """Without the names of the parameters, which are not part of the ABI."""
    kinds = []
    for parameter in parameters.split(","):
        parameter = " ".join(parameter.split())
        kinds.append(parameter if parameter == "void" else re.sub(r"\s*\w+$", "", parameter))
    return f"{' '.join(result.split())} ({', '.join(kinds)})"


def measured(interface, include, compiler):
    """Sizes and values, by a program."""
    lines = []
    for name in interface.constants:
        lines.append(f'printf("constant {name}: %lld\\n", (long long)({name}));')
    for name in interface.types:
        signed = f"(({name})-1 < 1 ? \"signed\" : \"unsigned\")"
        lines.append(f'printf("type {name}: %zu bytes, %s\\n", sizeof({name}), {signed});')
    for name, fields in interface.structs.items():
        kind = f"struct {name}"
        lines.append(
            f'printf("{kind}: %zu bytes, aligned to %zu\\n", sizeof({kind}), _Alignof({kind}));')
        for declared, field in fields:
            lines.append(
                f'printf("{kind}.{field}: {declared} at %zu, %zu bytes\\n",'
                f" offsetof({kind}, {field}), sizeof((({kind} *)0)->{field}));")
    includes = "".join(f'#include "{header}"\n' for header in HEADERS)
    body = "\n".join(lines)
    source = f"#include <stdio.h>\n{includes}int main(void) {{\n{body}\nreturn 0;\n}}\n"
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "program"
        program.with_suffix(".c").write_text(source)
        flags = ["-std=c11", "-w", f"-I{include}"]
        run(compiler, *flags, "-o", str(program), str(program.with_suffix(".c")))
        return run(str(program)).splitlines()


def exported(library, nm):
    """What the shared library shows to the dynamic linker, with the sizes of its variables."""
    lines = []
    for line in run(nm, "-D", "--defined-only", "--format=posix", str(library)).splitlines():
        name, kind, _, size = line.split()
        what = "function" if kind in "TtWi" else f"{int(size, 16)} bytes of data"
        lines.append(f"export {name}: {what}")
    return lines


def interface_as_text(options):
    interface = Interface(INCLUDE)
    lines = measured(interface, INCLUDE, options.cc)
    lines += [f"callback {name}: {prototype(result, parameters)}"
              for result, name, parameters in interface.callbacks]
    lines += [f"function {name}: {prototype(result, parameters)}"
              for result, name, parameters in interface.functions]
    lines += exported(options.library, options.nm)
    return dict(line.split(": ", 1) for line in lines)


def committed():
    if not LIST.exists():
        return {}
    lines = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split(": ", 1) for line in lines)


def differences(old, new):
    """What is new, which harms no program, and what is gone or different, which may."""
    added = [f"added:   {name}: {new[name]}" for name in new if name not in old]
    harmful = [f"removed: {name}: {old[name]}" for name in old if name not in new]
    harmful += [f"changed: {name}: {old[name]} -> {new[name]}"
                for name in new if name in old and old[name] != new[name] and name != VERSION]
    return added, harmful


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=pathlib.Path, default=ROOT / "build/cmake/lib/liblot.so")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--write", action="store_true",
                        help="write the list, and with a new ABI number the headers")
    parser.add_argument("--replace", action="store_true",
                        help="with --write: the headers too, whatever the number is")
    options = parser.parse_args()
    if sys.maxsize < 2**32 or platform.system() != "Linux":
        sys.exit("NOT CHECKED: the list is for 64-bit Linux")

    old, new = committed(), interface_as_text(options)
    added, harmful = differences(old, new)
    raised = old.get(VERSION) != new[VERSION]
    print("\n".join(added + harmful))

    if options.write:
        if harmful and not raised and not options.replace:
            sys.exit("Programs that were built with the committed headers would misbehave: raise "
                     "LOT_ABI_VERSION and the number in the soname first.")
        lines = [LINE, *(f"{name}: {value}" for name, value in new.items())]
        LIST.write_text("\n".join(lines) + "\n")
        if raised or options.replace or not FIRST_HEADERS.exists():
            shutil.rmtree(FIRST_HEADERS, ignore_errors=True)
            for header in KEPT_HEADERS:
                (FIRST_HEADERS / header).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(INCLUDE / header, FIRST_HEADERS / header)
        return
    if harmful:
        sys.exit("The C interface differs from cpp-tests/abi/abi.txt in a way that breaks programs "
                 "which are built already. If that is meant, raise LOT_ABI_VERSION and the number "
                 "in the soname, and run `make abi`.")
    if added or raised:
        sys.exit("The C interface has more than cpp-tests/abi/abi.txt says: run `make abi` and commit "
                 "the result.")
    if len(new) < 100:
        sys.exit("Too little was read to be the interface.")


if __name__ == "__main__":
    main()

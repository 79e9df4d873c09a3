#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""changes.py CC NM LIBRARY: tools/abi.py notices each kind of change, in a copy of the headers."""

import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

# (what is replaced in lot/lot.h, by what, what has to be said)
CHANGES = [
    ("  uint64_t epoch;\n", "  uint32_t epoch;\n", "changed: struct lot_ref.epoch"),
    ("  lot_kind kind;\n} lot_death", "  uint32_t kind;\n} lot_death",
     "changed: struct lot_death.kind"),
    ("#define LOT_CAUSE_RELEASED 7", "#define LOT_CAUSE_RELEASED 8",
     "changed: constant LOT_CAUSE_RELEASED"),
    ("typedef int32_t lot_status", "typedef uint32_t lot_status", "changed: type lot_status"),
    ("lot_status lot_set_user(struct lot_ref ref, void *user)",
     "lot_status lot_set_user(struct lot_ref ref, int user)",
     "changed: function lot_set_user"),
    ("bool lot_is_live(struct lot_ref ref);", "", "removed: function lot_is_live"),
    ("#define LOT_OK 0", "#define LOT_OK 0\n#define LOT_NEW 1", "added:   constant LOT_NEW"),
]


def verdict(copy, cc, nm, library):
    command = [sys.executable, str(copy / "tools/abi.py"), "--library", library]
    command += ["--cc", cc, "--nm", nm]
    return subprocess.run(command, capture_output=True, text=True)


def main(cc, nm, library):
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        for part in ["tools/abi.py", "cpp-tests/abi/abi.txt"]:
            (copy / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / part, copy / part)
        shutil.copytree(ROOT / "include", copy / "include")
        header = copy / "include/lot/lot.h"
        text = header.read_text()
        for old, new, said in CHANGES:
            if text.count(old) != 1:
                print(f"{said}: not made, since lot.h has other lines now")
                failed = True
                continue
            # The layout of a lot_ref is also asserted by the header itself.
            changed = text.replace(old, new).split("/* Both sides of the ABI")[0]
            header.write_text(changed + "#endif\n")
            result = verdict(copy, cc, nm, library)
            if result.returncode == 0 or said not in result.stdout:
                print(f"{said}: not noticed\n{result.stdout}{result.stderr}")
                failed = True
        header.write_text(text)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Instruction counts by callgrind: they are the same on a busy machine as on an idle one."""

import os
import pathlib
import re
import subprocess
import tempfile


def callgrind(command, options=(), env=None):
    """Runs a program under callgrind; gives its output, and what each dump counted, by the dump's trigger."""
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "out"
        # Without address randomisation, so that nothing depends on where things happen to be.
        line = ["setarch", "--addr-no-randomize", "valgrind", "--quiet", "--tool=callgrind"]
        line += [f"--callgrind-out-file={out}", *options, *map(str, command)]
        run = subprocess.run(line, stdout=subprocess.PIPE, text=True, env=env)
        if run.returncode:
            raise SystemExit(f"failed ({run.returncode}): {' '.join(line)}\n{run.stdout}")
        counts = {}
        for dump in pathlib.Path(directory).iterdir():
            text = dump.read_text(errors="replace")
            # The program's end is a trigger too.
            name = re.search(r"^desc: Trigger: (?:Client Request: )?(.*)$", text, re.MULTILINE).group(1)
            total = int(re.search(r"^totals: (\d+)", text, re.MULTILINE).group(1))
            counts[name] = counts.get(name, 0) + total
        return run.stdout, counts


def total(command, options):
    """The instructions of a whole run, or of what the options say."""
    return sum(callgrind(command, options)[1].values())


def per_job(program):
    """The instructions of each path that a program such as benches/cpp/instructions.cpp counts, for one job."""
    # Bound at once, or the first call of a library's function would be counted with its look-up.
    env = {**os.environ, "LD_BIND_NOW": "1"}
    output, counts = callgrind([program], ["--instr-atstart=no"], env)
    result = {}
    for line in output.splitlines():
        name, jobs = line.split("\t")
        result[name] = counts[name] / int(jobs)
    if not result:
        raise SystemExit(f"{program} counted nothing")
    return result


if __name__ == "__main__":
    import sys

    for path, count in per_job(sys.argv[1]).items():
        print(f"{path:45} {count:10.1f}")

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the benchmarks, with the library as it is shipped: cargo's release profile."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "bench"
# Shared with the other builds, so that the crate is compiled once.
CARGO_TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def run(*line, env=None):
    """Runs a build step; shows its output only if it fails."""
    step = subprocess.run(
        list(map(str, line)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, cwd=ROOT
    )
    if step.returncode:
        sys.exit(f"{step.stdout}\nfailed ({step.returncode}): {' '.join(map(str, line))}")
    return step.stdout


def cpp(*targets):
    """Builds programs of benches/cpp and gives the folder that they are in."""
    directory = BUILD / "cpp"
    run(
        "cmake", "-S", ROOT / "benches" / "cpp", "-B", directory, "-G", "Ninja",
        "-DCMAKE_BUILD_TYPE=Release", f"-DLOT_CARGO_TARGET_DIR={CARGO_TARGET}",
    )  # fmt: skip
    run("cmake", "--build", directory, "--target", *targets)
    return directory


def rust(*what):
    """Builds targets of benches/rust and gives the paths of the programs, by target."""
    import json

    output = run(
        "cargo", "build", "--release", "--locked", "--message-format=json-render-diagnostics", *what,
        "--manifest-path", ROOT / "benches" / "rust" / "Cargo.toml",
        env={**os.environ, "CARGO_TARGET_DIR": str(BUILD / "cargo")},
    )  # fmt: skip
    programs = {}
    for line in output.splitlines():
        if line.startswith("{"):
            message = json.loads(line)
            if message.get("executable"):
                programs[message["target"]["name"]] = message["executable"]
    return programs

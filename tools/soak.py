#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the random tests for as long as one likes: tools/soak.py MINUTES.

The parts take turns, in slices of a minute, one for each processor at a time. Each slice is a line
with its figures. A part that finds something is not run again. The last lines are the sums; the
exit code is 1 if anything was found. Output is kept in build/soak.
"""

import argparse
import collections
import dataclasses
import itertools
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "soak"
SLICE = 60  # seconds
PATIENCE = 900  # How much longer than its slice a part may take.
ADDRESSES = 16 << 30


@dataclasses.dataclass
class Part:
    """One thing to run. To add one, write a function below that gives a Part, and list it in PARTS."""

    name: str
    command: list
    # What the figures look like in the output: pattern and unit.
    figures: list
    # Given the seconds of a slice.
    environment: object = lambda seconds: {}
    arguments: object = lambda seconds: []
    is_limited: bool = True
    runs_once: bool = False
    processors: int = 1


def cargo_test(name, directory, flags=""):
    """Builds a test and gives its program."""
    environment = {**os.environ, "CARGO_TARGET_DIR": str(directory)}
    if flags:
        environment["RUSTFLAGS"] = flags
    command = ["cargo", "test", "--quiet", "--locked", "--profile", "model", "--no-run"]
    command += ["--test", name, "--message-format", "json"]
    built = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    if built.returncode:
        sys.exit(f"{name} does not build")
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    programs = [
        message["executable"]
        for message in messages
        if message.get("executable") and message["target"]["name"] == name
    ]
    return [programs[-1], "--nocapture", "--test-threads=1"]


MODEL_FIGURES = [
    (r"model, rust: (\d+) steps", "steps through Rust"),
    (r"model, c: (\d+) steps", "steps through C"),
]


def model():
    return Part(
        "model",
        cargo_test("model", ROOT / "target"),
        MODEL_FIGURES,
        lambda seconds: {"LOT_MODEL_SECONDS": seconds},
    )


def model_small():
    return Part(
        "model with four generations and seven records",
        cargo_test("model", LOGS / "small", "--cfg lot_small"),
        MODEL_FIGURES,
        lambda seconds: {"LOT_MODEL_SECONDS": seconds},
    )


def stress():
    figures = [
        (r"^(\d+) calls", "calls on shared objects"),
        (r"^(\d+) forks", "forks"),
        (r"^(\d+) trackers", "trackers with observers"),
        (r"^(\d+) rounds", "rounds against old handles and destroyed objects"),
        (r"^(\d+) steps", "steps on eight threads"),
    ]
    return Part(
        "stress",
        cargo_test("stress", ROOT / "target"),
        figures,
        lambda seconds: {"LOT_STRESS_SECONDS": seconds},
        processors=2,
    )


def memory(minutes):
    registrations = 100_000_000 if minutes >= 60 else 3_000_000
    return Part(
        "memory",
        cargo_test("memory", ROOT / "target"),
        [(r": (\d+) KiB, and", "KiB in memory")],
        lambda seconds: {"LOT_MEMORY_REGISTRATIONS": registrations},
        runs_once=True,
    )


def fuzz():
    own = ROOT / "build" / "tools" / "bin"
    path = f"{own}:{os.environ['PATH']}"
    if not shutil.which("cargo-fuzz", path=path):
        print("!!! NOT RUN: the fuzz target. There is no cargo-fuzz: `cargo install cargo-fuzz`")
        return None
    corpus = LOGS / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    cargo = ["cargo", "+nightly", "fuzz"]
    built = subprocess.run([*cargo, "build", "steps"], cwd=ROOT / "fuzz", env={**os.environ, "PATH": path})
    if built.returncode:
        sys.exit("the fuzz target does not build")
    # What is found goes to the first folder; the committed one is only read.
    command = [*cargo, "run", "steps", str(corpus), str(ROOT / "fuzz/corpus/steps"), "--"]
    command += ["-print_final_stats=1", "-rss_limit_mb=4096", "-timeout=30", "-max_len=3000"]
    return Part(
        "fuzz",
        command,
        [(r"stat::number_of_executed_units: +(\d+)", "programs of the fuzzer")],
        lambda seconds: {"PATH": path},
        lambda seconds: [f"-max_total_time={seconds}"],
        is_limited=False,
    )


def bindings():
    """Random programs, and evil arguments, on the Python bindings with AddressSanitizer."""
    script = str(ROOT / "tools" / "sanitize-bindings.sh")
    if not (ROOT / "build" / "upstream" / "tracked.stamp").exists():
        print("!!! NOT RUN: the Python bindings. They are not built: `make bindings`")
        return []
    if subprocess.run([script, "build"], cwd=ROOT).returncode:
        sys.exit("the bindings do not build with AddressSanitizer")
    return [
        Part(
            name,
            [script, kind],
            [(r"^(\d+) " + figure, figure)],
            arguments=lambda seconds: [str(seconds)],
            is_limited=False,
        )
        for name, kind, figure in (
            ("programs on the bindings", "random", "random programs with AddressSanitizer"),
            ("arguments for the bindings", "evil", "evil calls with AddressSanitizer"),
        )
    ]


def parts_of(minutes):
    """Everything that takes part. A part that cannot be run here is None, and has said so."""
    parts = [model(), model_small(), stress(), memory(minutes), fuzz(), *bindings()]
    return [part for part in parts if part]


class Soak:
    def __init__(self, parts, minutes):
        self.start = time.monotonic()
        self.end = self.start + 60 * minutes
        self.queue = collections.deque(parts)
        self.free = os.cpu_count()
        self.condition = threading.Condition()
        self.sums = collections.Counter()
        self.slices = collections.Counter()
        self.findings = []
        self.number = itertools.count(1)

    def minute(self):
        return (time.monotonic() - self.start) / 60

    def run(self):
        """Starts slices while there is time, and waits for all of them."""
        threads = []
        with self.condition:
            while True:
                left = self.end - time.monotonic()
                if left < 5 or (not self.queue and not any(t.is_alive() for t in threads)):
                    break
                needed = min(self.queue[0].processors, os.cpu_count()) if self.queue else None
                if needed is None or needed > self.free:
                    self.condition.wait(timeout=1)
                    continue
                part = self.queue.popleft()
                self.free -= needed
                arguments = (part, round(min(SLICE, left)), needed)
                threads.append(threading.Thread(target=self.slice, args=arguments))
                threads[-1].start()
        for thread in threads:
            thread.join()

    def slice(self, part, seconds, processors):
        log = LOGS / f"{next(self.number):04}-{part.name.split()[0]}.log"
        environment = {**os.environ, "RUST_BACKTRACE": "0"}
        environment |= {name: str(value) for name, value in part.environment(seconds).items()}
        limit = (lambda: resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES)))
        patience = PATIENCE * (4 if part.runs_once else 1)
        with open(log, "w") as out:
            try:
                code = subprocess.run(
                    part.command + part.arguments(seconds),
                    cwd=ROOT / "fuzz" if part.name == "fuzz" else ROOT,
                    env=environment,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    timeout=seconds + patience,
                    preexec_fn=limit if part.is_limited else None,
                ).returncode
            except subprocess.TimeoutExpired:
                code = "no end"
        text = log.read_text(errors="replace")
        figures = []
        for pattern, unit in part.figures:
            count = sum(map(int, re.findall(pattern, text, re.MULTILINE)))
            figures.append(f"{count:,} {unit}")
            with self.condition:
                self.sums[part.name, unit] += count
        is_well = code == 0
        line = ", ".join(figures) if is_well else f"FOUND SOMETHING ({code}), see {log}"
        print(f"{self.minute():6.1f} min  {part.name}: {line}", flush=True)
        if not is_well:
            print("\n".join(text.splitlines()[-60:]), flush=True)
        with self.condition:
            self.slices[part.name] += 1
            self.free += processors
            if not is_well:
                self.findings.append((part.name, log))
            elif not part.runs_once:
                self.queue.append(part)
            self.condition.notify()

    def summary(self, parts):
        print(f"\nSoak of {self.minute():.0f} minutes on {os.cpu_count()} processors:")
        for part in parts:
            print(f"  {part.name}: {self.slices[part.name]} slices")
            if not self.slices[part.name]:
                print("    !!! never run: the time was too short")
            for (name, unit), count in self.sums.items():
                if name == part.name:
                    print(f"    {count:,} {unit}")
        for name, log in self.findings:
            print(f"  FOUND SOMETHING: {name}, see {log}")
        if not self.findings:
            print("  nothing was found")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("minutes", type=float, nargs="?", default=60)
    minutes = parser.parse_args().minutes
    LOGS.mkdir(parents=True, exist_ok=True)
    for log in LOGS.glob("*.log"):
        log.unlink()
    parts = parts_of(minutes)
    soak = Soak(parts, minutes)
    soak.run()
    soak.summary(parts)
    sys.exit(1 if soak.findings else 0)


if __name__ == "__main__":
    main()

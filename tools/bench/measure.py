# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the benchmark programs and gathers what they found, as plain data."""

import json
import os
import re
import subprocess

import build
import instructions
import python_bench

PIPELINE_MODES = ["off", "0", "10", "1000"]


def output_of(*line, env=None):
    return subprocess.run(list(map(str, line)), stdout=subprocess.PIPE, text=True, check=True, env=env).stdout


def google(program, *options):
    """Nanoseconds of real time for a job, and of the processor, by the benchmark's name."""
    report = json.loads(output_of(program, "--benchmark_format=json", *options))
    found = {}
    for run in report["benchmarks"]:
        nanoseconds = 1e9 / run["items_per_second"]
        # Ours all have microseconds or nanoseconds, of which the ratio is what matters here.
        found[run["name"]] = {"ns": nanoseconds, "cpu_ns": nanoseconds * run["cpu_time"] / run["real_time"]}
    return found


def criterion(program, seconds):
    """Nanoseconds for a job, by the benchmark's name."""
    line = [program, "--bench", "--noplot", "--output-format", "bencher", "--sample-size", "10"]
    line += ["--measurement-time", seconds, "--warm-up-time", "0.1"]
    # Its warnings that ten samples take longer than it was given are kept to ourselves.
    text = build.run(*line, env={**os.environ, "CRITERION_HOME": str(build.BUILD / "criterion")})
    jobs = 100_000  # lot_benches::ROUND
    found = re.findall(r"^test (.+) \.\.\. bench: +([0-9,]+) ns/iter", text, re.MULTILINE)
    return {name: int(time.replace(",", "")) / jobs for name, time in found}


def in_alternation(rounds, rust_program, registry, seconds):
    """Runs both sets of small benchmarks again and again: a list of times for each."""
    found = {}
    for _ in range(rounds):
        for name, time in criterion(rust_program, seconds).items():
            found.setdefault(f"rust/{name}", []).append(time)
        table = google(registry, "--benchmark_filter=^table/", f"--benchmark_min_time={seconds}")
        for name, time in table.items():
            short = re.sub(r"^table/|/100000|/real_time", "", name)
            found.setdefault(f"c++/{short}", []).append(time["ns"])
            if "threads:" in short:
                found.setdefault(f"c++/{short}/cpu", []).append(time["cpu_ns"])
    return found


def rust_instructions(program):
    """The instructions of each Rust contender for a job."""
    found = {}
    for line in output_of(program).splitlines():
        group, name = line.split("\t")
        total = instructions.total([program, group, name], ["--toggle-collect=lot_bench_counted"])
        found[f"{group}/{name}"] = total / 100_000
    return found


def erase(program):
    """Nanoseconds to erase a parent, by who, operations and tracked ones: the fastest of some runs."""
    found = {}
    for _ in range(3):
        for name, time in google(program).items():
            who, operations, tracked = re.match(r"erase/(\w+)/(\d+)/(\d+)/", name).groups()
            key = f"{who}/{operations}/{tracked}"
            found[key] = min(found.get(key, time["ns"]), time["ns"])
    return found


def pipeline(program, operations, rounds, counted_operations):
    """The life of a module: nanoseconds of each phase by mode and round, and instructions by mode."""
    times = {}
    for line in output_of(program, operations, rounds, *PIPELINE_MODES).splitlines():
        mode, _, *phases = line.split("\t")
        if mode != "warm-up":
            times.setdefault(mode, []).append([int(phase) for phase in phases])
    _, counts = instructions.callgrind(
        [program, counted_operations, 1, *PIPELINE_MODES], ["--instr-atstart=no"]
    )
    return {"operations": operations, "times": times, "counted_operations": counted_operations, "counts": counts}


def memory(program, sizes, longest_size, runs):
    """Bytes, and the calls that are slow in every run."""
    idle = {}
    for line in output_of(program, "idle").splitlines():
        which, anonymous, allocated = line.split("\t")
        idle[which] = {"anonymous": int(anonymous), "allocated": int(allocated)}
    tracked = {str(size): float(output_of(program, "tracked", size)) for size in sizes}
    common = None
    for _ in range(runs):
        slow = {}
        for line in output_of(program, "longest", longest_size).splitlines():
            call, number, nanoseconds = line.split("\t")
            slow[call, number] = int(nanoseconds)
        # What is slow in one run only is the machine's doing.
        common = slow if common is None else {
            key: min(time, slow[key]) for key, time in common.items() if key in slow
        }  # fmt: skip
    worst = sorted(((time, call, int(number)) for (call, number), time in common.items()), reverse=True)
    return {"idle": idle, "tracked": tracked, "longest_size": longest_size, "longest_runs": runs, "longest": worst[:10]}


def curves(registry, runs, seconds):
    """Nanoseconds for a job by curve, line and x: the fastest of some runs."""
    found = {}
    for _ in range(runs):
        measured = google(registry, "--benchmark_filter=^(size|threads|depth|fan-out)/", f"--benchmark_min_time={seconds}")
        for name, time in measured.items():
            curve, line, x = name.removesuffix("/manual_time").split("/", 2)
            if curve == "threads":
                x = x.rsplit(":", 1)[1]
            line = found.setdefault(curve, {}).setdefault(line, {})
            line[x] = min(line.get(x, time["ns"]), time["ns"])
    return found


def everything(bindings, quick, say):
    programs = build.cpp("registry", "instructions_peers", "memory", "mlir_erase", "mlir_pipeline", "callgrind_switch")
    say("building the Rust benchmarks")
    rust = build.rust("--bin", "lot-benches", "--bench", "checks")
    found = {}
    say("counting instructions")
    found["instructions"] = instructions.per_job(programs / "instructions_peers")
    found["rust instructions"] = rust_instructions(rust["lot-benches"])
    say("checks and hooks beside the peers")
    found["times"] = in_alternation(3 if quick else 9, rust["checks"], programs / "registry", 0.1 if quick else 0.3)
    say("erasing a parent")
    found["erase"] = erase(programs / "mlir_erase")
    say("the life of a module")
    sizes = (30_000, 2, 5_000) if quick else (300_000, 5, 30_000)
    found["pipeline"] = pipeline(programs / "mlir_pipeline", *sizes)
    say("memory")
    found["memory"] = memory(programs / "memory", [1_000_000, 10_000_000], 1_000_000 if quick else 10_000_000, 3 if quick else 5)
    say("Python")
    found["python"] = python_bench.measure(bindings, quick)
    say("the curves")
    found["curves"] = curves(programs / "registry", 1 if quick else 3, 0.02 if quick else 0.1)
    return found

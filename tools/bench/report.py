# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Turns what was measured into the table of targets and docs/benchmarks.md."""

import dataclasses
import os
import pathlib
import platform
import re
import statistics
import subprocess

import python_bench

NOTES = pathlib.Path(__file__).with_name("notes.md")


@dataclasses.dataclass
class Row:
    what: str
    against: str
    basis: str
    value: float
    target: float
    unit: str = "x"
    at_least: bool = False
    also: str = ""

    @property
    def met(self):
        return self.value >= self.target if self.at_least else self.value <= self.target

    def cells(self):
        def number(value):
            digits = 0 if value >= 1000 else 1 if value >= 100 else 2 if self.unit != "x" else 3
            return f"{value:,.{digits}f} {self.unit}"

        sign = "≥" if self.at_least else "≤"
        met = "met" if self.met else "NOT MET"
        return [self.what, self.against, self.basis, number(self.value), f"{sign} {self.target:g} {self.unit}", met, self.also]


HEADINGS = ["what", "against", "by", "measured", "target", "", "also"]


def ratio(times, one, other):
    """The median of the ratios in each round: neighbours in time, so that a busy machine slows both."""
    return statistics.median(a / b for a, b in zip(times[one], times[other], strict=True))


def rows(found):
    times, counts, rust = found["times"], found["instructions"], found["rust instructions"]

    def timed(what, against, one, other, target, also=""):
        return Row(what, against, "time", ratio(times, one, other), target, also=also)

    def instructions(one, other):
        return f"{one:.0f} instructions, {other:.0f}"

    def rust_instructions(group, one, other):
        return instructions(rust[f"{group}/{one}"], rust[f"{group}/{other}"])

    c, inlined = "lot through the C ABI", "lot inlined"
    check, miss, empty = "rust/is_live/", "rust/destroy_miss/", "rust/destroy_empty/"
    table = [
        timed("`is_live` through the C ABI, 100k live, shuffled", "slotmap `contains_key`",
              check + c, check + "slotmap contains_key", 2.0,
              rust_instructions("is_live", c, "slotmap contains_key")),
        timed("", "dashmap lookup, fast hash", check + c, check + "dashmap (Fx) lookup", 0.25,
              f"default hash: {ratio(times, check + c, check + 'dashmap (SipHash) lookup'):.3f} x"),
        timed("`is_live` in Rust, inlined", "a load and a comparison",
              check + inlined, check + "load and compare", 1.3,
              rust_instructions("is_live", inlined, "load and compare")),
        timed("`isLive` in C++, through the header", "a load and a comparison",
              "c++/is_live/lot", "c++/is_live/floor", 1.3,
              instructions(counts["is_live, by lot.hpp"], counts["peer: load and compare"])),
        timed("`destroy` of a stranger, 100k others tracked", "dashmap miss, fast hash",
              miss + c, miss + "dashmap (Fx) miss", 0.35,
              f"default hash: {ratio(times, miss + c, miss + 'dashmap (SipHash) miss'):.3f} x; "
              + rust_instructions("destroy_miss", c, "dashmap (Fx) miss")),
        Row("`destroy` of a stranger, nothing tracked", "", "time", min(times[empty + c]), 1.5, "ns",
            also=f"a call with a load and a branch: {min(times[empty + 'load and branch in a call']):.2f} ns; "
            + rust_instructions("destroy_empty", c, "load and branch in a call")),
        timed("track and release, one thread", "LLVM 19 insert and erase, mutex",
              "c++/track_release/lot", "c++/track_release/llvm19_mutex", 1.0,
              instructions(counts["track and release"], counts["peer: LLVM 19 insert and erase, mutex"])
              + f"; no mutex: {ratio(times, 'c++/track_release/lot', 'c++/track_release/llvm19_unlocked'):.2f} x"
              + f"; Shiboken: {ratio(times, 'c++/track_release/lot', 'c++/track_release/shiboken'):.2f} x"),
        timed("the same with 4 known ancestors reported", "LLVM 19, which knows none",
              "c++/track_release/lot_below", "c++/track_release/llvm19_mutex", 1.0,
              instructions(counts["track and release, 4 ancestors"],
                           counts["peer: LLVM 19 insert and erase, mutex"])),
    ]  # fmt: skip
    for name, what, target in (
        ("lot_scope_each", "a scope each", 1.6),
        ("lot_scope_each_mixed_pages", "a scope each, objects mixed page by page", 1.2),
        ("lot_scope_each_mixed", "a scope each, objects mixed one by one", 1.2),
        ("lot_one_scope", "one scope", 1.7),
    ):
        one, two = f"c++/threads/{name}/threads:1", f"c++/threads/{name}/threads:2"
        table.append(
            Row(f"track and release on 2 threads, {what}", "throughput of one", "time", min(times[one]) / min(times[two]),
                target, at_least=True,
                also=f"by processor time: {2 / ratio(times, two + '/cpu', one + '/cpu'):.2f} x")
        )  # fmt: skip
    erase = found["erase"]
    walk = erase["llvm19_unlocked/1000000/1000"]
    table.append(
        Row("erase a parent, 1,000 tracked of 1,000,000", "LLVM 19's walk, no mutex", "time",
            walk / erase["lot/1000000/1000"], 100, at_least=True,
            also=f"{erase['lot/1000000/1000'] / 1000:.0f} µs; of 10,000: {erase['lot/10000/1000'] / 1000:.0f} µs; "
            f"with a mutex: {erase['llvm19_mutex/1000000/1000'] / erase['lot/1000000/1000']:.0f} x")
    )  # fmt: skip
    pipeline = found["pipeline"]
    whole = {mode: statistics.median(map(sum, rounds)) for mode, rounds in pipeline["times"].items()}
    for mode, what, target in (("0", "nothing", 1.01), ("10", "1%", 1.03), ("1000", "all", 1.15)):
        table.append(
            Row(f"the life of a module, load hooks on, {what} tracked", "hooks off", "instructions",
                pipeline["counts"][mode] / pipeline["counts"]["off"], target,
                also=f"time, {pipeline['operations'] // 1000}k operations: {whole[mode] / whole['off']:.3f} x")
        )  # fmt: skip
    jobs = {
        "first visit": ("first visit of 100k operations", 1.05),
        "second visit": ("visiting them again, held", 0.8),
        "build": ("building 100k operations", 1.05),
        "drop": ("dropping 60k operations, two thirds held", 1.3),
    }
    for job, (what, target) in jobs.items():
        seconds, counted = found["python"][job]["seconds"], found["python"][job]["instructions"]

        def instructions_to(kind):
            return f"{counted['tracked'] / counted[kind]:.3f} x"

        table.append(
            Row(f"Python: {what}", "stock, same compiler", "time", ratio(seconds, "tracked", "rebuilt"), target,
                also=f"instructions: {instructions_to('rebuilt')}; the stock package: "
                f"{ratio(seconds, 'tracked', 'stock'):.3f} x, instructions: {instructions_to('stock')}")
        )  # fmt: skip
    seconds = found["python"]["import"]["seconds"]
    more = statistics.median(a - b for a, b in zip(seconds["tracked"], seconds["stock"], strict=True))
    counted = found["python"]["import"]["instructions"]
    table.append(
        Row("Python: import of the bindings", "stock", "time", 1000 * more, 20, "ms more",
            also=f"instructions: {(counted['tracked'] - counted['stock']) / 1e6:+.0f} million on "
            f"{counted['stock'] / 1e6:.0f} million")
    )  # fmt: skip
    memory = found["memory"]
    for size, bytes_each in memory["tracked"].items():
        table.append(Row(f"memory for a tracked operation, of {int(size):,}", "", "resident", bytes_each, 80, "bytes"))
    idle = memory["idle"]
    table.append(
        Row("memory of an idle tracker", "", "anonymous", idle["first"]["anonymous"] / 1024, 64, "KiB",
            also=f"each further one: {idle['further']['anonymous'] / 1024:.0f} KiB")
    )  # fmt: skip
    worst = memory["longest"][0] if memory["longest"] else (0, "none above 20 µs", 0)
    table.append(
        Row(f"longest single call at {memory['longest_size']:,} tracked", "", "time", worst[0] / 1e6, 1, "ms",
            also=f"slow in each of {memory['longest_runs']} runs: {worst[1]}, number {worst[2]:,}")
    )  # fmt: skip
    return table


def as_text(table):
    cells = [HEADINGS] + [row.cells() for row in table]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADINGS))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells)


def as_markdown(headings, lines):
    out = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    out += ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join(out)


def first_line(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]


def machine(root):
    """Where and with what it was measured."""
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", cpuinfo, re.MULTILINE)
    memory = int(re.search(r"^MemTotal: +(\d+)", pathlib.Path("/proc/meminfo").read_text(), re.MULTILINE).group(1))
    facts = {
        "processor": f"{model.group(1) if model else platform.machine()}, {os.cpu_count()} cores",
        "memory": f"{memory / 1024**2:.0f} GiB",
        "load before": f"{os.getloadavg()[0]:.1f}",
        "system": f"Linux {platform.release().split('-')[0]}, {platform.libc_ver()[0]} {platform.libc_ver()[1]}",
        "Rust": first_line("rustc", "--version"),
        "C++": first_line("c++", "--version"),
        "LLVM": first_line("/usr/lib/llvm-22/bin/llvm-config", "--version"),
        "Python": platform.python_version(),
        "valgrind": first_line("valgrind", "--version"),
        "commit": first_line("git", "-C", str(root), "log", "-1", "--format=%h of %as"),
    }
    return facts


def document(found, table):
    times = [
        [name, f"{statistics.median(all_times):.2f}", f"{min(all_times):.2f}"]
        for name, all_times in found["times"].items()
    ]
    counts = [[name, f"{count:.1f}"] for name, count in found["instructions"].items()]
    counts += [[f"Rust: {name}", f"{count:.1f}"] for name, count in found["rust instructions"].items()]
    erase = [
        [who, f"{int(operations):,}", f"{int(tracked):,}", f"{time / 1000:,.1f}"]
        for (who, operations, tracked), time in ((key.split("/"), time) for key, time in found["erase"].items())
    ]
    python = [
        [job]
        + [f"{1000 * statistics.median(of['seconds'][kind]):.1f}" for kind in python_bench.KINDS]
        + [f"{of['instructions'][kind]:,}" for kind in python_bench.KINDS]
        for job, of in found["python"].items()
    ]
    pipeline = found["pipeline"]
    life = [
        [mode if mode == "off" else f"{int(mode) / 10:g}%"]
        + [f"{statistics.median(phase) / 1e6:.1f}" for phase in zip(*rounds)]
        + [f"{pipeline['counts'][mode]:,}"]
        for mode, rounds in pipeline["times"].items()
    ]
    facts = "\n".join(f"- {name}: {value}" for name, value in found["machine"].items())
    pictures = "\n\n".join(
        f"![{curve}](benchmarks/{curve}.svg)\n\n{text}" for curve, text in notes("curve").items()
    )
    how = notes("text")
    return f"""<!-- SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception -->
<!-- Written by `make bench`: change tools/bench/notes.md or the benchmarks, not this file. -->
# Benchmarks

{how["about"]}

Measured on {found["date"]}{", in a quick run" if found["quick"] else ""}:

{facts}

## Targets

{as_markdown(HEADINGS, [row.cells() for row in table])}

{how["targets"]}

## Curves

{how["curves"]}

{pictures}

## What was measured

### Checks and hooks, nanoseconds for one

{as_markdown(["who", "median", "fastest"], times)}

### Instructions for one

{as_markdown(["path", "instructions"], counts)}

### Erasing a parent of N operations of which n are tracked

{as_markdown(["who", "N", "n", "µs"], erase)}

### The life of a module of {pipeline["operations"]:,} operations

Milliseconds of each phase; instructions for all phases, with {pipeline["counted_operations"]:,} operations.

{as_markdown(["tracked", "parse", "track", "canonicalize", "cse", "destroy", "instructions"], life)}

### The Python bindings

{as_markdown(["job", *(f"{kind}, {unit}" for unit in ("ms", "instructions") for kind in python_bench.KINDS)], python)}
"""


def notes(kind):
    """The sections of notes.md that are headed `## KIND NAME`."""
    sections = re.split(r"^## (\w+) (.+)\n", NOTES.read_text(), flags=re.MULTILINE)[1:]
    triples = zip(sections[::3], sections[1::3], sections[2::3])
    return {name: text.strip() for of, name, text in triples if of == kind}

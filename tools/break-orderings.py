#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Breaks the core once for each entry of MUTATIONS, and says whether its judge notices.

tools/mutants.sh makes the mutations that cargo-mutants knows. It knows neither memory orderings nor
code that does too much, so these stand here. A mutation is one textual change, made in a copy of the
crate. loom and shuttle judge what shows in some interleavings only (tools/interleavings.sh), and the
crate's tests the rest.

    tools/break-orderings.py [--only WORD]

To add one: a line in MUTATIONS, whose text stands once in its file.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys

import limited

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPY = ROOT / "build" / "orderings"
SECONDS = 900

LOOM = "loom"
SHUTTLE = "shuttle"
TESTS = "tests"

# (file, what is replaced, by what, what that breaks, judge, the judge's tests)
MUTATIONS = [
    # Checks against ends and starts of a slot
    ("table.rs", "self.hot.object.store(object, Ordering::Release);",
     "self.hot.object.store(object, Ordering::Relaxed);",
     "the next object is seen before the end of the last one", LOOM, "table::loom_models"),
    ("table.rs", "let other_object = hot.object.load(Ordering::Acquire) ^ object;",
     "let other_object = hot.object.load(Ordering::Relaxed) ^ object;",
     "a check reads the object after the epoch", LOOM, "table::loom_models"),
    ("table.rs", "self.hot.epoch.store(epoch, Ordering::Release);\n        epoch",
     "self.hot.epoch.store(epoch, Ordering::Relaxed);\n        epoch",
     "a live epoch is seen before its user pointer", LOOM, "table::loom_models"),
    ("table.rs", "self.cold.user.store(user, Ordering::Release);",
     "self.cold.user.store(user, Ordering::Relaxed);",
     "a user pointer is seen before the end of the last incarnation", LOOM, "table::loom_models"),
    ("table.rs", "self.cold.user.load(Ordering::Acquire)", "self.cold.user.load(Ordering::Relaxed)",
     "a ref is given the next incarnation's user pointer", LOOM, "table::loom_models"),
    ("table.rs", "TABLE.mask.store((len - 1) as u32, Ordering::Release);",
     "TABLE.mask.store((len - 1) as u32, Ordering::Relaxed);",
     "slots are seen before their memory", LOOM, "table::loom_models"),
    # The record of the dead
    ("death_log.rs", "fence(Ordering::Release);", "",
     "a record is seen half overwritten, with its old epoch", LOOM, "death_log::loom_models"),
    ("death_log.rs", "fence(Ordering::Acquire);", "",
     "a record's epoch is read again too early", LOOM, "death_log::loom_models"),
    ("death_log.rs", "record.epoch.store(ended.epoch, Ordering::Release);",
     "record.epoch.store(ended.epoch, Ordering::Relaxed);",
     "a record's epoch is seen before the rest", LOOM, "death_log::loom_models"),
    # The filter
    ("filter.rs", "let left = counter.load(Ordering::Acquire);",
     "let left = counter.load(Ordering::Relaxed);",
     "an entry goes by a count, and misses the words that came with it", LOOM,
     "filter::loom_models"),
    ("filter.rs", "if version.is_multiple_of(2) && self.version.load(Ordering::Acquire) == version {",
     "if version.is_multiple_of(2) {",
     "an entry that comes during a renewal is hidden", LOOM, "filter::loom_models"),
    # Locks
    ("sync/lock.rs", "self.is_held().store(false, Ordering::Release);",
     "self.is_held().store(false, Ordering::Relaxed);",
     "a lock's next holder misses the last one's writes", LOOM, "lock::loom_models"),
    ("sync/fork_lock.rs", "self.count.store(guards - 1, Ordering::Release);",
     "self.count.store(guards - 1, Ordering::Relaxed);",
     "whoever closes the fork lock misses what readers wrote", LOOM, "fork_lock::loom_models"),
    # Checks and calls that do too much
    ("tracker.rs", "        table::is_live(self.object, self.epoch)\n",
     "        let _held = forest::stripe(0);\n        table::is_live(self.object, self.epoch)\n",
     "a check takes a lock", TESTS, "r03_a_check_takes_no_lock"),
    ("observers.rs", "        drop(guard);\n        /// Takes", "        let _inside = guard;\n        /// Takes",
     "observers run inside of the fork lock", SHUTTLE, "interleavings::r15"),
]


def judge(kind, tests):
    environment = dict(os.environ)
    if kind == TESTS:
        command = ["cargo", "nextest", "run", "--locked", "--cargo-profile", "mutants", "--lib",
                   "--config-file", "tools/nextest-mutants.toml", "-E", f"test({tests})"]
    else:
        command = ["tools/interleavings.sh", kind, "-E", f"test({tests})"]
    status, text = limited.run(command, SECONDS, cwd=COPY, env=environment)
    if status is None:
        return "hangs"
    if "could not compile" in text:
        return "does not compile:\n" + text
    if "0 tests run" in text or "no tests to run" in text:
        return "runs no tests"
    return "passes" if status == 0 else "fails"


def copy_crate():
    """Adds to the copy, whose build folder spares compiling the dependencies."""
    for name in ("src", "tests"):
        shutil.rmtree(COPY / name, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (COPY / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, COPY / name)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="WORD", help="those whose line contains it")
    arguments = parser.parse_args()

    copy_crate()
    unnoticed = noticed = 0
    for file, old, new, effect, kind, tests in MUTATIONS:
        if arguments.only and arguments.only not in f"{file} {effect} {kind} {tests}":
            continue
        path = COPY / "src" / "core" / file
        text = path.read_text()
        if text.count(old) != 1:
            print(f"STALE      {file}: {effect}: its text stands {text.count(old)} times", flush=True)
            unnoticed += 1
            continue
        path.write_text(text.replace(old, new))
        verdict = judge(kind, tests)
        path.write_text(text)
        good = verdict in ("fails", "hangs")
        noticed += good
        unnoticed += not good
        said = "noticed  " if good else "UNNOTICED"
        print(f"{said}  {file}: {effect}" + ("" if good else f" ({kind}: {verdict})"), flush=True)
    print(f"{noticed} passed, {unnoticed} failed")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())

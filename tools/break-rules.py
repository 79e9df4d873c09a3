#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Breaks the tracker once for each rule and says whether a test that names the rule notices.

Each mutation is one textual change of src/core (or src/ffi), made in a copy of the crate. For it to count, the copy
must still compile, and `cargo test` of the tests whose names begin with the rule must fail. Not part of `make test`:
it compiles the crate once a mutation (about ten minutes in all on two cores).

    tools/break-rules.py [--only R06] [--keep]
"""
import argparse
import pathlib
import shutil
import sys
import tempfile

import limited

ROOT = pathlib.Path(__file__).resolve().parent.parent

# (rule, file, what is replaced, by what, what that breaks)
MUTATIONS = [
    ("r01", "src/core/table.rs", "self.epoch.store(epoch ^ ENDED, Ordering::Release);\n        epoch",
     "epoch", "an ended incarnation goes on being live"),
    ("r01", "src/core/forest.rs", "self.end_incarnation(tracker, node, cause, ending);\n        share_of",
     "share_of", "an end takes the node but not the incarnation"),
    ("r02", "src/core/table.rs", "generation_of(self.epoch.load(Ordering::Relaxed)) == LAST_GENERATION", "false",
     "a used-up slot is used again and wraps"),
    ("r02", "src/core/table.rs", "generation_of(self.epoch.load(Ordering::Relaxed)) + 1;",
     "generation_of(self.epoch.load(Ordering::Relaxed)) | 1;", "generations repeat"),
    ("r03", "src/core/table.rs", "other_object as u64 | other_epoch == 0", "(other_object & 0) as u64 | other_epoch == 0",
     "a check does not compare the object"),
    ("r03", "src/core/table.rs", "const ENDED: u64 = 1;", "const ENDED: u64 = 1 << 31;",
     "the epoch of an ended incarnation can be asked about"),
    ("r03", "src/core/tracker.rs", "        table::is_live(self.object, self.epoch)",
     "        let _stripes = forest::stripe(0).lock();\n        table::is_live(self.object, self.epoch)",
     "a check takes a lock"),
    ("r04", "src/core/tracker.rs", "stripe.end_subtree(inner, node, cause, Cause::AncestorDestroyed, &mut ending);",
     "stripe.end_alone(inner, node, cause, &mut ending);", "erase ends the object alone"),
    ("r05", "src/core/forest.rs", "            node.hot.set_object(GONE);\n            return;",
     "            self.give_children(node, NONE);\n            node.hot.set_object(GONE);\n            return;",
     "what is below a destroyed object loses its place"),
    ("r05", "src/core/forest.rs", "            node.hot.set_object(GONE);\n", "",
     "a new object inherits what was below the old one"),
    ("r05", "src/core/forest.rs", "self.relink(tracker, node, parent);\n        Ok(Ok(()))", "Ok(Ok(()))",
     "reported ancestors are not linked"),
    ("r06", "src/core/tracker.rs", "if is_tracked && (is_new || meta.kind() != kind) {",
     "if is_tracked && meta.kind() != kind {", "create gives the old incarnation"),
    ("r06", "src/core/tracker.rs", "if is_new {\n                    let mut ending", "if false {\n                    let mut ending",
     "create leaves what was below an anchor"),
    ("r07", "src/core/tracker.rs", "                stripe.end_unindexed(inner, node, cause, &mut ending);",
     "                stripe.end_below(inner, node, cause, &mut ending);\n                stripe.end_unindexed(inner, node, cause, &mut ending);", "destroy takes the subtree along"),
    ("r08", "src/core/tracker.rs", "placed = stripe.place(inner, node, ancestors);", "let _ = (stripe, node);",
     "a move is not noted"),
    ("r08", "src/core/forest.rs", "check_ancestors(placed.hot.object(), ancestors)?;", "", "cycles are accepted"),
    ("r09", "src/core/tracker.rs", "if !inner.is_exact() {\n                let mut ending = Ending::now(reference_of(node)",
     "if false {\n                let mut ending = Ending::now(reference_of(node)", "an opaque mutation ends nothing"),
    ("r09", "src/core/tracker.rs", "if !inner.is_exact() {\n                let mut ending = Ending::now(reference_of(node)",
     "if true {\n                let mut ending = Ending::now(reference_of(node)", "... also when an exact source is active"),
    ("r10", "src/core/tracker.rs", "if inner.is_exact() {", "if false {", "erase in exact mode goes by the tree"),
    ("r10", "src/core/tracker.rs", "active.checked_sub(1)", "active.checked_sub(active.min(2))", "sources do not nest"),
    ("r11", "src/core/tracker.rs", "while let Some(slot) = inner.index.get(object) {",
     "while let Some(slot) = Some(inner.index.get(object).unwrap()) {", "an unknown address is an error"),
    ("r12", "src/core/forest.rs", "self.prune(tracker, old);", "", "anchors stay"),
    ("r12", "src/core/forest.rs", "            self.free = node.slot;", "            let _ = node.slot;", "slots are not used again"),
    ("r13", "src/core/quarantine.rs", "if slot_of(record.epoch) != slot || generation > newest_possible {", "if false {",
     "an overwritten record is believed"),
    ("r13", "src/core/quarantine.rs", "            .store(position as u32 + 1, Ordering::Relaxed);", "            .store(0, Ordering::Relaxed);",
     "deaths are not found"),
    ("r14", "src/core/forest.rs", "if kind.is_none_or(|kind| kind == node.cold.meta().kind()) {", "{",
     "counts of a scope take every kind"),
    ("r14", "src/core/tracker.rs", "step(&self.tracked[kind as usize], -1);", "", "counts of a tracker only grow"),
    ("r15", "src/core/tracker.rs", "        drop(pass);\n        notice.map(Notice::deliver)",
     "        notice.map(|notice| { let _held = forest::stripe(forest::stripe_of(0, 0)).lock(); notice.deliver(); drop(pass); })",
     "observers run under a lock (the test hangs or fails)"),
    ("r15", "src/core/tracker.rs", "            tell(self.inner, &self.ends);", "            let _ = (tell, self.inner);",
     "observers are not told"),
    ("r16", "src/core/index.rs", " && table::Node::at(*entry.1.get()).hot.object() == self.object", "",
     "addresses with the same fingerprint are mixed up"),
    ("r16", "src/core/forest.rs", "node.cold.user.store(user, Ordering::Relaxed);", "let _ = user;",
     "user pointers are lost"),
    ("r17", "src/core/tracker.rs", "(id != 0 && inner.id.load(Ordering::Acquire) == id).then_some(inner)",
     "(id != 0 && inner.id.load(Ordering::Acquire) != 0).then_some(inner)", "an old handle passes for a later tracker"),
    ("r17", "src/ffi/mod.rs", "count_internal_error();\n", "", "a caught bug is not counted"),
    ("r18", "src/core/forest.rs", "Ok((slot, is_new)) if is_new || is_in_scope(Node::at(slot), stripe, scope) => slot,",
     "Ok((slot, _)) => slot,", "a node of another stripe is linked"),
    ("r18", "src/core/tracker.rs", "if inner.id.load(Ordering::Acquire) != self.id {\n                break Err(Error::NO_TRACKER);\n            }",
     "", "an object gets into a tracker that has just been destroyed"),
    ("r18", "src/core/sync.rs", "!self.is_held.load(Ordering::Relaxed) && !self.is_held.swap(true, Ordering::Acquire)",
     "{ self.is_held.store(true, Ordering::Relaxed); true }", "locks let everybody in"),
    ("r19", "src/core/sync.rs", "            while lane.0.load(Ordering::SeqCst) != 0 {\n                std::thread::yield_now();\n            }",
     "            let _ = lane;", "a fork does not wait for the hooks"),
]


def run(copy, rule, timeout):
    command = ["cargo", "test", "--quiet", "--lib", "--test", "rules", "--test", "allocation", "--no-fail-fast", "--", rule]
    status, text = limited.run(command, timeout, cwd=copy)
    if status is None:
        return "hangs"
    if "could not compile" in text:
        return "does not compile:\n" + text
    return "passes" if status == 0 else "fails"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="RULE", help="such as R06")
    parser.add_argument("--keep", action="store_true", help="keep the copy of the crate, and say where")
    arguments = parser.parse_args()

    copy = pathlib.Path(tempfile.mkdtemp(prefix="break-rules-"))
    for name in ["Cargo.toml", "Cargo.lock", "build.rs", "cbindgen.toml", ".cargo", "src", "tests", "include", "benches"]:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("consumers", "python", "mlir_*"))
        elif source.exists():
            shutil.copy(source, copy / name)
    unnoticed = 0
    noticed = 0
    for rule, file, old, new, effect in MUTATIONS:
        if arguments.only and arguments.only.lower() != rule:
            continue
        path = copy / file
        text = path.read_text()
        if text.count(old) != 1:
            print(f"{rule.upper()}  STALE     {effect}: its text stands {text.count(old)} times in {file}")
            unnoticed += 1
            continue
        path.write_text(text.replace(old, new))
        # Rounds, since what threads do wrong does not show each time.
        for _ in range(3):
            verdict = run(copy, rule, 100)
            if verdict != "passes":
                break
        path.write_text(text)
        good = verdict in ("fails", "hangs")
        noticed += good
        unnoticed += not good
        print(f"{rule.upper()}  {'noticed' if good else 'UNNOTICED'}   {effect}" + ("" if good else f" (the tests: {verdict})"), flush=True)
    if arguments.keep:
        print("the copy:", copy)
    else:
        shutil.rmtree(copy)
    print(f"{noticed} passed, {unnoticed} failed")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())

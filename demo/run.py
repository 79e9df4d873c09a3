#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""run.py FOLDER: five everyday accidents with references to MLIR operations, each in a process of its own, on
the stock bindings (FOLDER/stock-python) and on ours (FOLDER/tracked-python), side by side.

Fails if ours crash, answer for what has ended, or refuse what has not; and if stock gets one right, since then
the demo shows nothing.
"""

import ast
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import textwrap

SCRIPTS = pathlib.Path(__file__).resolve().parent / "scripts"
ACCIDENTS = ["module_collected", "address_reused", "parent_erased", "removed_by_pass", "dropped_in_helper"]


class Outcome:
    """What became of one script on one build of the bindings."""

    def __init__(self, python, script):
        try:
            child = subprocess.run(
                [python, script], capture_output=True, text=True, timeout=120, errors="replace",
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
            )
            self.status, output, self.errors = child.returncode, child.stdout, child.stderr
        except subprocess.TimeoutExpired:
            self.status, output, self.errors = None, "", ""
        said = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        self.stale = [line for line in said if "stale" in line]
        self.survivors = [line for line in said if "survivor" in line]
        self.notes = [line["note"] for line in said if "note" in line]

    def what_happened(self):
        if self.status is None:
            return "does not end"
        if self.status < 0:
            return signal.Signals(-self.status).name
        if self.status > 0 or not self.stale:
            return f"exit status {self.status}: {self.errors.strip()[-200:]}"
        line = self.stale[0]
        return line["error"] if "error" in line else f'wrong answer: "{line["answer"]}"'

    def refused_properly(self):
        """The stale reference raised an exception that is the bindings' own."""
        return self.status == 0 and bool(self.stale) and all(
            line.get("error", "").startswith("DeadReferenceError: ") for line in self.stale
        )

    def survivors_work(self):
        return bool(self.survivors) and all(line["works"] for line in self.survivors)


def table(rows, width):
    """Prints rows of three texts in columns."""
    first, second = 34, 26
    columns = (first, second, max(40, width - first - second - 4))
    for row in rows:
        if row is None:
            print("─" * (sum(columns) + 4))
            continue
        cells = [
            [piece for line in text.splitlines() or [""] for piece in textwrap.wrap(line, size) or [""]]
            for text, size in zip(row, columns)
        ]
        for number in range(max(map(len, cells))):
            line = (cell[number] if number < len(cell) else "" for cell in cells)
            print("  ".join(text.ljust(size) for text, size in zip(line, columns)).rstrip())


def source_of_events(python):
    """Which source tells our bindings of ends, and why not a better one."""
    script = "import json; from mlir import ir; print(json.dumps(ir.lot_status()))"
    status = json.loads(subprocess.check_output([python, "-c", script], text=True))
    text = f"Our bindings hear of ended operations by: {status['source']}"
    if status["exact"]:
        text += f" ({status['slots_patched']} table slots). Each end is seen, whoever causes it."
    if status["reason"]:
        text += f" ({status['reason']})"
    return text


def main(folder):
    stock, tracked = (str(pathlib.Path(folder) / f"{kind}-python") for kind in ("stock", "tracked"))
    rows = [("accident", "stock MLIR bindings", "with the live object tracker"), None]
    failures = []
    for number, name in enumerate(ACCIDENTS, 1):
        script = SCRIPTS / f"{name}.py"
        before, now = Outcome(stock, script), Outcome(tracked, script)
        title = ast.get_docstring(ast.parse(script.read_text()))
        alive = ", ".join(line["survivor"] for line in now.survivors if line["works"])
        notes = "".join(f" ({note})" for note in now.notes)
        rows.append((
            f"{number} {title}{notes}",
            before.what_happened(),
            f"{now.what_happened()}\nstill working: {alive or 'nothing'}",
        ))
        if not now.refused_properly():
            failures.append(f"{name}: ours: {now.what_happened()}")
        for line in now.survivors:
            if not line["works"]:
                failures.append(f"{name}: ours refuse {line['survivor']}: {line['answer']}")
        if not now.survivors_work():
            failures.append(f"{name}: not every survivor works on ours")
        if before.status == 0 and not any("answer" in line for line in before.stale):
            failures.append(f"{name}: stock gets it right: {before.what_happened()}")
        elif before.status is None or before.status > 0:
            failures.append(f"{name}: stock fails in another way: {before.what_happened()}")
        rows.append(("", "", ""))
    table(rows[:-1], min(shutil.get_terminal_size((124, 40)).columns, 140))
    print("\n" + source_of_events(tracked))
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""plot.py RESULTS DIRECTORY: draws the curves. Needs matplotlib, see requirements.txt."""

import json
import pathlib
import sys

import matplotlib

matplotlib.use("svg")
# Text stays text, and a curve that has not changed gives the same file.
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "lot", "font.size": 9})
import matplotlib.pyplot as pyplot  # noqa: E402

LABELS = {
    "size": "tracked objects",
    "threads": "threads (on 2 cores)",
    "depth": "ancestors reported",
    "fan-out": "children of the parent",
}


def draw(name, lines, path):
    figure, axes = pyplot.subplots(figsize=(7, 4))
    for label, points in lines.items():
        xs = sorted(map(int, points))
        if name == "threads":
            ys = [1000 / points[str(x)] for x in xs]
        else:
            ys = [points[str(x)] for x in xs]
        axes.plot(xs, ys, marker="o", markersize=3, label=label)
    axes.set_xscale("log", base=2 if name == "threads" else 10)
    axes.set_yscale("log")
    if name == "threads":
        axes.set_xticks(xs, labels=map(str, xs))
    axes.set_xlabel(LABELS[name])
    axes.set_ylabel("millions a second, all threads" if name == "threads" else "nanoseconds for one")
    axes.grid(True, which="major", alpha=0.3)
    # Beside the lines, never on them.
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def main(results, directory):
    pyplot.rcParams["figure.constrained_layout.use"] = True
    curves = json.loads(pathlib.Path(results).read_text())["curves"]
    for name, lines in curves.items():
        draw(name, lines, pathlib.Path(directory) / f"{name}.svg")


if __name__ == "__main__":
    main(*sys.argv[1:])

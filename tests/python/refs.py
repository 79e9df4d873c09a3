# What the tests say about references.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import gc
import os
import pathlib
import sys

import pytest

from mlir import ir

# Extension modules of somebody else, which are not in the package.
sys.path.append(str(pathlib.Path(ir.__file__).parents[2] / "processes" / "modules"))

# In structural mode nobody sees what a pass erases: a run ends all references strictly below its root.
EXACT = ir.lot_status()["exact"]

junk = []


def settle(ctx=None):
    """Lets go of what nobody holds, and gives the freed memory to somebody else."""
    gc.collect()
    if ctx is not None:
        for i in range(30):
            junk.append(ir.Module.parse(f"module {{ func.func private @junk{i}(i32, f32) }}", ctx))
        del junk[::2]
        gc.collect()
        junk.clear()


def dead(fn, *words):
    """What fn reads has ended: it must raise DeadReferenceError, with these words in the text."""
    with pytest.raises(ir.DeadReferenceError) as caught:
        fn()
    text = str(caught.value)
    for word in words:
        assert word in text, text
    del caught
    return text


def refused(fn, *words):
    """The bindings refuse to do that: ValueError, and nothing has happened."""
    with pytest.raises(ValueError) as caught:
        fn()
    for word in words:
        assert word in str(caught.value), str(caught.value)
    del caught


def survives(fn, want):
    """fn reads what has survived a run of C++ code: fine in exact mode, and ended in structural mode."""
    if EXACT:
        assert fn() == want
    else:
        dead(fn)


def keeps_its_context(make, use):
    """What `make` makes of a context keeps it, by itself, and lets go of it at its end."""
    gc.collect()
    before = ir.Context._get_live_count()
    made = make(ir.Context())
    gc.collect()
    assert ir.Context._get_live_count() == before + 1
    use(made)
    del made
    gc.collect()
    assert ir.Context._get_live_count() == before


def name_if_alive(op):
    """The name of an operation, or None if it has ended."""
    try:
        return op.operation.name
    except ir.DeadReferenceError:
        return None


def names(block):
    return [op.operation.name for op in block.operations]


def in_child(text, **environment):
    """Runs a script in a process of its own: (exit status, output). Negative: the signal that ended it."""
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=120, env={**os.environ, **environment})
    return done.returncode, done.stdout

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the scripts beside this file share: they tell demo/run.py what happened, a line of JSON each."""

import ctypes
import json


def _say(**what):
    print(json.dumps(what), flush=True)


def stale(what, use):
    """`what` has ended: `use` it all the same."""
    try:
        answer = use()
    except Exception as error:
        _say(stale=what, error=f"{type(error).__name__}: {error}")
    else:
        _say(stale=what, answer=str(answer))


def survives(what, use, wanted):
    """`what` has not ended: `use` has to give the `wanted`."""
    try:
        answer = use()
    except Exception as error:
        _say(survivor=what, works=False, answer=f"{type(error).__name__}: {error}")
    else:
        _say(survivor=what, works=answer == wanted, answer=str(answer))


def note(text):
    _say(note=text)


def address(operation):
    """Where an operation is in memory."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return pointer(operation._CAPIPtr, b"mlir.ir.Operation._CAPIPtr")

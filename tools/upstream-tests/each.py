# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs one of upstream's test files case by case, each case in a forked child of its own.

    PYTHON each.py FILE RESULTS [SECONDS]

A whole file passes or fails at its first accident; a case a process says what each of them does, and a crash
takes nothing else with it. A case is a statement at the file's top level that runs something: a function
with a decorator that the file defines itself (upstream's `@run`), a call of such a function, a `with`, a
`for`, an `if`. Everything else (imports, helpers, classes, constants) is carried out before, in the parent.

RESULTS becomes a JSON list of {name, status, output}; status is "ok", "raises NAME", "exit N", "signal N" or
"time". The case "(setup)" is there only if carrying out the rest failed.
"""

import ast
import json
import os
import signal
import sys
import tempfile
import time
import traceback

LOCAL_ONLY = (ast.With, ast.For, ast.While, ast.If, ast.Try, ast.Assert)


def called_name(node):
    """The name in `name`, `name(...)`; None for anything else."""
    if isinstance(node, ast.Call):
        node = node.func
    return node.id if isinstance(node, ast.Name) else None


def case_name(statement, helpers):
    """What to call the case that this statement is; None if it is none."""
    if isinstance(statement, ast.FunctionDef):
        runs = any(called_name(decorator) in helpers for decorator in statement.decorator_list)
        return statement.name if runs else None
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        if called_name(call) not in helpers:
            return None
        argument = called_name(call.args[0]) if call.args else None
        return argument or called_name(call)
    if isinstance(statement, LOCAL_ONLY):
        return f"line {statement.lineno}"
    return None


def in_child(code, namespace, output):
    """In the child: the case, its output to a file, then the interpreter's own way out (which may crash)."""
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    status = 0
    try:
        exec(code, namespace)
    except SystemExit:
        raise
    except BaseException as error:
        traceback.print_exc()
        print(f"raises {type(error).__name__}", file=sys.stderr)
        status = 99
    sys.exit(status)


def wait(child, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def describe(status, output):
    if status is None:
        return "time"
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    code = os.WEXITSTATUS(status)
    if code == 99:
        return output.rstrip().rpartition("\n")[2]
    return f"exit {code}" if code else "ok"


def run_case(name, code, namespace, seconds):
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            in_child(code, namespace, output)
        status = wait(child, seconds)
        output.seek(0)
        text = output.read().decode(errors="replace")
    return {"name": name, "status": describe(status, text), "output": text}


def main():
    path, results_path = sys.argv[1:3]
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 60.0
    with open(path) as file:
        tree = ast.parse(file.read(), path)
    helpers = {s.name for s in tree.body if isinstance(s, ast.FunctionDef)}

    sys.argv = [path]
    sys.path[0] = os.path.dirname(path)
    namespace = {"__name__": "__main__", "__file__": path, "__builtins__": __builtins__}
    results, seen = [], {}
    for statement in tree.body:
        name = case_name(statement, helpers)
        if name is not None:
            seen[name] = seen.get(name, 0) + 1
            label = name if seen[name] == 1 else f"{name} #{seen[name]}"
            code = compile(ast.Module([statement], []), path, "exec")
            results.append(run_case(label, code, namespace, seconds))
            if not isinstance(statement, ast.FunctionDef):
                continue
            # What comes later may use the function by its name.
            statement.decorator_list = []
        try:
            exec(compile(ast.Module([statement], []), path, "exec"), namespace)
        except Exception as error:
            text = traceback.format_exc()
            results.append({"name": "(setup)", "status": f"raises {type(error).__name__}", "output": text})
            break
    with open(results_path, "w") as file:
        json.dump(results, file)


main()

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls every function of the core modules with every kind of argument, each in a forked child.

    tracked-python tests/python/evil_arguments.py [--slice I/N] [--only TEXT] [--jobs N] [--list]

The functions and their parameters are read from nanobind's own signatures, so a new function is
called without a new line here. An argument is an object of `evil_world.py` that is alive, dead,
foreign or half-made, a number at a boundary, or something that erases, drops, runs or raises while
it is asked. A call may raise what it likes. One that ends the process by a signal, or does not come
back, is printed as a short program. Exit status 1 if there was one.
"""

import argparse
import collections
import hashlib
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time

FILLED = {"MALLOC_PERTURB_": "165", "PYTHONMALLOC": "malloc"}
SECONDS, CPU_SECONDS = 30, 10  # a call that takes longer hangs
MEMORY = 6 << 30
ROOTS = ("_mlir", "_engine", "_transform", "_linalg", "_llvm", "_smt", "_irdl")
ACTS = (
    "erase",
    "drop",
    "detach",
    "arguments",
    "run",
    "leave",
    "enter",
    "raise",
    "stop",
    "release",
    "again",
)
NUMBERS = (
    "0",
    "1",
    "-1",
    "2",
    "7",
    "64",
    "127",
    "2**31 - 1",
    "2**31",
    "2**32",
    "2**63 - 1",
    "2**63",
    "-2**63",
    "2**64",
    "10**30",
    "2**24 + 1",
    "-2",
    "10**6",
)
TEXTS = {
    "asm": ["TEXT", "'module'", "'i32'", "'1 : i32'", "'%'"],
    "source": ["TEXT", "'\"t.a\"() : () -> ()'", "'%'"],
    "name": [
        "'t.new'",
        "'func.func'",
        "'arith.addi'",
        "'builtin.module'",
        "'sym_name'",
        "'note'",
        "'arith'",
    ],
    "pipeline": ["'builtin.module(canonicalize)'", "'any(cse)'", "'canonicalize'", "'('"],
}
ANY_TEXT = [
    "'x'",
    "''",
    "'\\0'",
    "'a' * 100000",
    "'\\ud800'",
    "'arith.constant'",
    "'f'",
    "'i32'",
    "'affine_map<'",
    "'/nowhere/x'",
]
ANYTHING = ["None", "7", "'x'", "object()", "[]", "{}", "add", "attr0", "type0", "loc", "ctx"]


class Enumeration:
    """All functions, with the classes that their signatures name."""

    def __init__(self, world):
        self.world = vars(world)
        self.classes = {}  # by name
        self.functions = []  # (path, how it is called, signature)
        seen = set()
        for root in ROOTS:
            self.add_module(root, self.world[root], seen)
        self.pools = {cls: self.pool(cls) for cls in self.classes.values()}

    def pool(self, cls):
        """The names of the objects of a class."""
        return [n for n, v in self.world.items() if isinstance(v, cls) and not n.startswith("_")]

    def add_module(self, path, module, seen):
        for name, value in vars(module).items():
            if id(value) in seen or name.startswith("__"):
                continue
            seen.add(id(value))
            if isinstance(value, type(sys)):
                self.add_module(f"{path}.{name}", value, seen)
            elif isinstance(value, type):
                self.add_class(f"{path}.{name}", value)
            elif hasattr(value, "__nb_signature__"):
                self.add(f"{path}.{name}", "call", value)

    def add_class(self, path, cls):
        self.classes.setdefault(cls.__name__, cls)
        for name, value in vars(cls).items():
            where = f"{path}.{name}"
            if type(value).__name__ == "nb_static_property":
                self.functions.append((where, "call_none", "def (self)"))
            elif isinstance(value, property):
                self.add(where, "get", value.fget)
                if value.fset:
                    self.add(where, "set", value.fset)
            elif isinstance(value, classmethod):
                self.add(where, "class", value.__func__)
            elif hasattr(value, "__nb_signature__"):
                self.add(where, "init" if name == "__init__" else "call", value)

    def add(self, path, how, function):
        for signature in getattr(function, "__nb_signature__", ()):
            self.functions.append((path, how, signature[0]))


def parameters(signature):
    """The names and types of the parameters in a signature; a type may be empty."""
    inside, level, parts, part = re.sub(r"\s+", " ", signature), 0, [], ""
    inside = inside[inside.index("(") + 1 :]
    for character in inside:
        if character in "([{":
            level += 1
        elif character in ")]}":
            level -= 1
        if level < 0:
            break
        if character == "," and level == 0:
            parts.append(part)
            part = ""
        else:
            part += character
    parts.append(part)
    found = []
    keyword = False
    for part in parts:
        part = part.strip()
        if part in ("", "/"):
            continue
        if part == "*":
            keyword = True
            continue
        name, _, kind = part.partition(":")
        kind, _, default = kind.partition(" = ")
        if name.startswith("*"):
            found.append((name.strip(), kind.strip(), "star"))
            keyword = True
        else:
            found.append(
                (
                    name.split("=")[0].strip(),
                    kind.strip(),
                    "keyword" if keyword else "",
                    bool(default),
                )
            )
    return [(f[0], f[1], f[2]) for f in found]


class Arguments:
    """Expressions for a parameter: those that it is made for, and all others."""

    def __init__(self, enumeration):
        self.enumeration = enumeration

    def of_class(self, cls):
        names = self.enumeration.pool(cls)
        good = [n for n in names if not n.startswith(("dead_", "f_"))]
        evil = [n for n in names if n.startswith(("dead_", "f_"))]
        return good, evil + ([f"half(type({names[0]}))"] if names else [])

    def named_classes(self, kind):
        for name in re.findall(r"[\w.]+", kind):
            cls = self.enumeration.classes.get(name.rpartition(".")[2])
            if cls is not None:
                yield cls

    def get(self, name, kind, owner=None):
        good, evil = [], []
        lowered = kind.lower()
        many = (
            re.search(r"sequence|list|iterable|tuple|dict|set\[", lowered)
            and "segments" not in lowered
        )
        classes = [owner] if owner is not None else list(self.named_classes(kind))
        for cls in classes:
            right, wrong = self.of_class(cls)
            good += right
            evil += wrong
        if re.search(r"\bint\b", lowered) or "float" in lowered:
            good += NUMBERS[:3]
            evil += [*NUMBERS[3:], *(f"Number(act_{a}, 1)" for a in ACTS)]
        if "float" in lowered:
            evil += ["float('nan')", "1e400", "1e-400"]
        if re.search(r"\bbool\b", lowered):
            good += ["True", "False"]
        if re.search(r"\bstr\b", lowered):
            good += next((v for k, v in TEXTS.items() if k in name), []) or ANY_TEXT[:1]
            evil += ANY_TEXT
        if "bytes" in lowered or "buffer" in lowered:
            good += ["array.array('i', [1, 2, 3])", "array.array('d', [1.5])", "b'abcd'"]
            evil += [
                "flat(None)",
                "memoryview(array.array('i', range(6))).cast('B').cast('i', shape=[2, 3])",
                "memoryview(array.array('i', range(6)))[::-1]",
                "b''",
                "bytearray(8)",
                "array.array('q', [])",
                "attr18",
            ]
        if "capsule" in lowered or name == "capsule":
            good += [
                f"{n}._CAPIPtr"
                for n in (
                    "ctx",
                    "module",
                    "add_op",
                    "value",
                    "attr0",
                    "type0",
                    "loc",
                    "block",
                    "frozen",
                    "manager",
                    "registry",
                    "identity",
                    "dim",
                    "integer_set",
                    "engine",
                )
            ]
            evil += ["dead_add_op._CAPIPtr", "f_add_op._CAPIPtr"]
        if "callable" in lowered or name in ("callback", "callable", "fn", "f", "func"):
            good += ["lambda *a: None", "lambda *a: True"]
            evil += [f"Call(act_{a})" for a in ACTS] + [
                "Call(lambda: None, 2**70)",
                "Call(lambda: None, [None])",
            ]
        if "context" in lowered and "Context" in self.enumeration.classes:
            good = ["None"] + good
        if many:
            good, evil = self.sequences(lowered, good or ["None"], evil)
        if name == "file":
            good += ["io.StringIO()", "io.BytesIO()"]
            evil += [f"File(act_{a})" for a in ACTS] + ["'/nowhere/x'"]
        if not good and not evil or re.search(r"\bobject\b|^$", kind):
            good += ANYTHING[:4]
            evil += (
                ANYTHING
                + [f"Call(act_{a})" for a in ACTS]
                + [f"Seq(act_{a}, value)" for a in ACTS[:4]]
            )
        if "none" in lowered:
            good += ["None"]
        return good or ["None"], evil + ANYTHING

    def sequences(self, kind, good, evil):
        if "dict" in kind:
            return ["{}", f"{{'a': {good[0]}}}", "{'note': attr0}"], [
                "{1: attr0}",
                "{'a': None}",
                "{'a': f_attr0}",
                "{'': attr0}",
                "{'a': add}",
                "{'operandSegmentSizes': attr0}",
                "{'x' * 9: attr9}",
            ]
        if good == ["None"]:  # a plain list
            good, evil = ["value", "attr0", "type0", "1"], ["dead_value", "f_value", "None"]
        two = good[1] if len(good) > 1 else good[0]
        right = [f"[{good[0]}]", f"[{good[0]}, {two}]", "[]"] + [f"[{g}]" for g in good[2:40]]
        wrong = [f"[{good[0]}, {e}]" for e in evil] + [
            f"({good[0]},)",
            f"[{good[0]}] * 100000",
            "[None]",
            "[[]]",
            f"[[{good[0]}]]",
        ]
        for act in ACTS:
            wrong.append(f"Seq(act_{act}, {good[0]}, {two})")
            wrong.append(f"[Seq(act_{act}, {good[0]}), {two}]")
        wrong += [
            f"Seq(act_raise, lambda: {good[0]})",
            f"LongSeq(act_raise, {good[0]})",
            "operands",
            "results",
            "arguments",
            "successors",
            "block_successors",
            "regions",
            "backwards",
            "some",
            "operands[:0]",
            "regions[::-1]",
            "regions[::2]",
            "f_operands",
            "dead_operands",
            "attr10",
            "integer_set_constraints",
            "map_results",
        ]
        return right, wrong


OPERATORS = (
    "len(X)",
    "list(X)",
    "X[0]",
    "X[-1]",
    "X[2**31]",
    "X[-2**31]",
    "X[2**63]",
    "X[-2**63]",
    "X[::-1]",
    "X[::2]",
    "X[5:1:-3]",
    "list(X[::-1])",
    "list(X[1:][::-1])",
    "X[2**62:]",
    "X['x']",
    "X[None]",
    "X[Number(act_erase, 0)]",
    "X[:Number(act_erase, 1)]",
    "X == X",
    "X != f_add",
    "hash(X)",
    "X + X",
    "X + [attr0]",
    "X + [f_attr0]",
    "X + operands",
    "X * X",
    "X * 2",
    "X - 1",
    "X % 0",
    "X // 0",
    "2 * X",
    "-X",
    "X < X",
    "bool(X)",
    "int(X)",
    "float(X)",
    "str(X)",
    "repr(X)",
    "next(X)",
    "X()",
    "X(attr0)",
    "'x' in X",
    "0 in X",
    "X in X",
    "memoryview(X)",
    "bytes(X)",
    "copy.copy(X)",
    "copy.deepcopy(X)",
    "pickle.dumps(X)",
    "X.__enter__()",
    "X.__exit__(None, None, None)",
    "X.__setitem__(0, value)",
    "X.__setitem__(-1, f_value)",
    "X.__setitem__(0, f_block)",
    "X.__setitem__('a', f_attr0)",
    "X.__delitem__('note')",
    "X.__init__()",
    "X.__init__(X)",
    "X.__class__.__new__(X.__class__)",
    "dir(X)",
    "[getattr(X, n, None) for n in dir(X)]",
    "list(zip(X, X))",
    "[x for x in X if act_erase()]",
    "[x for x in X if act_detach()]",
    "[x for x in X if act_drop()]",
    "format(X)",
    "iter(X)",
    "X.__setattr__('x', 1)",
    "isinstance(X, type(X))",
    "setattr(X, '__class__', type(add))",
    "weakref.ref(X)",
    "X.__reduce_ex__(2)",
)


def calls(enumeration):
    """(function, program) for each call."""
    arguments = Arguments(enumeration)
    for path, how, signature in enumeration.functions:
        yield from calls_of(enumeration, arguments, path, how, signature)
    names = [
        n
        for n, v in enumeration.world.items()
        if type(v) in set(enumeration.classes.values()) or n in enumeration.world["ALL"]
    ]
    for name in names:
        for operator in OPERATORS:
            yield "operator " + operator, operator.replace("X", name)


def calls_of(enumeration, arguments, path, how, signature):
    if how == "call_none":
        yield path, path
        return
    owner_path, _, member = path.rpartition(".")
    owner = find_in(enumeration, owner_path)
    owner = owner if isinstance(owner, type) else None
    choices = []
    for name, kind, where in parameters(signature):
        own = (
            owner
            if name in ("self", "arg0", "")
            and not choices
            and owner is not None
            and how in ("get", "set", "call")
            else None
        )
        if own is not None and kind and not list(arguments.named_classes(kind)) and kind != "":
            own = None
        if how == "class" and not choices:
            choices.append(
                (
                    name,
                    ["arith.AddIOp"],
                    ["ir.Value", "int", "object", "func.FuncOp", "ir.OpView"]
                    + [f"Call(act_{a})" for a in ACTS],
                    "",
                )
            )
            continue
        if how == "init" and not choices:
            choices.append((name, [owner_path], [], ""))
            continue
        good, evil = arguments.get(name, kind, own)
        choices.append((name, good, evil, where))
    random_source = random.Random(path + signature)

    def program(chosen):
        texts = []
        for (name, _, _, where), text in zip(choices, chosen):
            texts.append(
                f"*[{text}]"
                if where == "star"
                else f"{name}={text}" if where == "keyword" else text
            )
        if how == "get":
            return f"({texts[0]}).{member}"
        if how == "set":
            return f"setattr({texts[0]}, '{member}', {texts[-1]})"
        if how == "init":
            return f"{texts[0]}({', '.join(texts[1:])})"
        if how == "class":
            return (
                f"type('Own', (), {{'f': {owner_path}.__dict__['{member}'], "
                f"**dict(vars(arith.AddIOp))}}).f({', '.join(texts[1:])})"
                if not texts or texts[0] == "object"
                else f"{owner_path}.__dict__['{member}'].__func__({', '.join(texts)})"
            )
        return f"{path}({', '.join(texts)})"

    made = set()

    def once(chosen, before=""):
        text = before + program(chosen)
        if text not in made:
            made.add(text)
            yield path, text

    base = [good[0] for _, good, _, _ in choices]
    yield from once(base)
    # Each parameter in turn, while the others are as they should be; then all of them at random.
    for i, (_, good, evil, _) in enumerate(choices):
        for text in good + evil:
            yield from once(base[:i] + [text] + base[i + 1 :])
    for _ in range(min(60, 12 * (len(choices) - 1))):
        yield from once(
            [
                random_source.choice(good if random_source.random() < 0.7 else evil or good)
                for _, good, evil, _ in choices
            ]
        )
    if len(choices) > 1:
        for act in ACTS:
            for _ in range(2):
                yield from once(
                    [random_source.choice(good) for _, good, _, _ in choices], f"bomb(act_{act}); "
                )


def find_in(enumeration, path):
    value = enumeration.world
    for i, part in enumerate(path.split(".")):
        value = value[part] if i == 0 else getattr(value, part, None)
    return value


# ---- Running.


def run_in_child(world, program):
    """In the child. Does not return."""
    signal.alarm(SECONDS)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    statement, _, expression = program.rpartition("; ")

    def call():
        return eval(expression, world)

    try:
        world["again"][0] = call
        if statement:
            exec(statement, world)
        result = call()
    except BaseException as error:  # noqa: BLE001
        # An argument may be gone by itself when `act_drop` is called early.
        if isinstance(error, SyntaxError) or type(error) is NameError and "act_drop" not in program:
            os._exit(3)
        result = None
    world["touch"](result)
    result = None
    world["after"]()
    os._exit(0)


def describe(status):
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return (
            "HANG"
            if number in (signal.SIGALRM, signal.SIGXCPU, signal.SIGKILL)
            else signal.Signals(number).name
        )
    return {0: "ends", 3: "mistake"}.get(os.WEXITSTATUS(status), f"exit {os.WEXITSTATUS(status)}")


def run_all(world, chosen, report, errors):
    counts = collections.Counter()
    for function, program in chosen:
        errors.seek(0)
        errors.truncate()
        child = os.fork()
        if child == 0:
            os.dup2(errors.fileno(), 2)
            os.dup2(errors.fileno(), 1)
            run_in_child(world, program)
        how = describe(os.waitpid(child, 0)[1])
        counts[how] += 1
        if how != "ends":
            errors.seek(0)
            text = [
                line
                for line in errors.read(20000).decode(errors="replace").splitlines()
                if re.search(r"[Aa]ssert|ERROR|terminate|what\(\)|corrupt|free\(|Fatal", line)
            ]
            report(function, program, how, text[0][-200:] if text else "")
    return counts


def is_chosen(program, part, parts):
    return (
        parts == 1
        or int.from_bytes(hashlib.blake2b(program.encode(), digest_size=4).digest(), "big") % parts
        == part
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slice", default="0/1", metavar="I/N", help="one of N parts of the calls")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only functions, or programs, that contain this"
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if not options.list and any(os.environ.get(k) != v for k, v in FILLED.items()):
        os.execve(sys.executable, [sys.executable] + sys.argv, {**os.environ, **FILLED})
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import evil_world

    world = vars(evil_world)
    enumeration = Enumeration(evil_world)
    part, _, parts = options.slice.partition("/")
    chosen = [
        (f, p)
        for f, p in calls(enumeration)
        if is_chosen(p, int(part), int(parts)) and (options.only in f or options.only in p)
    ]
    lonely = sorted(
        c.__name__
        for c, pool in enumeration.pools.items()
        if not pool and not issubclass(c, BaseException)
    )
    print(
        f"{len(enumeration.functions)} functions, {len(chosen)} calls; "
        f"no object of: {', '.join(lonely)}",
        flush=True,
    )
    if options.list:
        for _, program in chosen:
            print(program)
        return 0
    scratch = tempfile.TemporaryDirectory(prefix="evil-")  # some calls write files
    os.chdir(scratch.name)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if "ASAN_OPTIONS" not in os.environ:  # which takes terabytes of addresses
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    start, children, totals = time.monotonic(), [], collections.Counter()
    for job in range(options.jobs):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            with tempfile.TemporaryFile() as errors, os.fdopen(writing, "w") as out:

                def report(function, program, how, text):
                    print(
                        f"# {how} in {function}: {text}\n"
                        f"from evil_world import *  # in tests/python\n{program}\n",
                        flush=True,
                    )

                counts = run_all(world, chosen[job :: options.jobs], report, errors)
                for how, count in counts.items():
                    print(how, count, sep="\t", file=out)
            os._exit(0)
        os.close(writing)
        children.append((child, reading))
    for child, reading in children:
        with os.fdopen(reading) as lines:
            for line in lines:
                how, count = line.rstrip("\n").split("\t")
                totals[how] += int(count)
        os.waitpid(child, 0)
    print(
        f"{sum(totals.values())} calls in {time.monotonic() - start:.0f} s: "
        + ", ".join(f"{k} {v}" for k, v in totals.most_common())
    )
    return int(bool(set(totals) - {"ends", "mistake"}) or sum(totals.values()) != len(chosen))


if __name__ == "__main__":
    sys.exit(main())

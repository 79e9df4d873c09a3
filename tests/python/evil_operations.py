# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes every operation of every dialect from parts that mostly do not fit, and uses it.

    tracked-python tests/python/evil_operations.py [--slice I/N] [--only NAME] [--jobs N]
    stock-python tests/python/evil_operations.py --list-inference

Types are inferred from operands of several types, without and with attributes, and half-made operations
are printed, verified, cloned and asked for all that they have. Each operation is used in a forked child;
after a crash another child goes on behind it. Exit status 1 if a child was ended by a signal.

With `--list-inference` only the inference is tried, and the operations that it ends the process for are
printed. This is what `unchecked_inference.inc` has.
"""

import argparse
import importlib
import inspect
import itertools
import os
import pkgutil
import resource
import signal
import sys
import tempfile

import mlir.dialects
from mlir import ir

SECONDS = 20


def operation_classes():
    classes = set()
    for module in pkgutil.iter_modules(mlir.dialects.__path__):
        if not module.name.endswith("_ops_gen"):
            continue
        try:
            imported = importlib.import_module("mlir.dialects." + module.name)
        except ImportError as error:
            print(f"not tried: {module.name} ({error})", flush=True)
            continue
        for member in vars(imported).values():
            if inspect.isclass(member) and issubclass(member, ir.OpView):
                if hasattr(member, "OPERATION_NAME"):
                    classes.add(member)
    return sorted(classes, key=lambda each: each.OPERATION_NAME)


TYPES = [
    "i32",
    "f32",
    "index",
    "tensor<2xf32>",
    "tensor<*xf32>",
    "memref<2xf32>",
    "vector<2xf32>",
    "complex<f32>",
    "none",
]


def acts(operation_class):
    """What is done with a kind of operation: texts and functions."""
    name = operation_class.OPERATION_NAME

    home = ir.Module.create()  # keeps the sources, since the published bindings do not

    def value(text):
        point = ir.InsertionPoint(home.body)
        return ir.Operation.create("t.source", results=[ir.Type.parse(text)], ip=point).result

    def infer(interface, method, operands):
        getattr(interface(operation_class), method)(operands)

    for text, count in itertools.chain([("none", 0)], itertools.product(TYPES, (1, 2, 3))):
        for interface, method in (
            (ir.InferTypeOpInterface, "inferReturnTypes"),
            (ir.InferShapedTypeOpInterface, "inferReturnTypeComponents"),
        ):
            yield (
                f"infer: {method} {text} * {count}",
                lambda i=interface, m=method, t=text, c=count: infer(i, m, [value(t)] * c),
            )
        for regions in (0, 1, 2):
            yield (
                f"infer: create {text} * {count}, {regions} regions",
                lambda t=text, c=count, r=regions: ir.Operation.create(
                    name, operands=[value(t)] * c, regions=r, infer_type=True
                ),
            )

    def use(results, operands, regions, has_blocks, attributes):
        operation = ir.Operation.create(
            name,
            results=[ir.Type.parse(text) for text in results],
            operands=[value(text) for text in operands],
            regions=regions,
            attributes={key: ir.Attribute.parse(text) for key, text in attributes.items()},
        )
        if has_blocks:
            for region in operation.regions:
                region.blocks.append()
        for look in (
            str,
            hash,
            lambda it: it.verify(),
            lambda it: it.get_asm(assume_verified=True),
            lambda it: it.get_asm(print_generic_op_form=True, enable_debug_info=True),
            lambda it: it.clone(ip=False),
            lambda it: it.is_registered,
            lambda it: [str(each) for each in it.attributes],
        ):
            try:
                look(operation)
            except Exception:  # noqa: BLE001
                pass
        view = operation.opview
        for member in dir(type(view)):
            if member.startswith("__") or member in ("erase", "detach_from_parent"):
                continue
            try:
                str(getattr(view, member))
            except Exception:  # noqa: BLE001
                pass

    some = {"value": "1 : i32", "sym_name": '"x"', "function_type": "() -> ()"}
    for results, operands, regions, attributes in itertools.product(
        ([], ["i32"]),
        ([], ["i32"], ["tensor<2xf32>", "memref<2xf32>", "i32"]),
        (0, 1, 2),
        ({}, some),
    ):
        for has_blocks in (False, True) if regions else (False,):
            yield (
                f"use: {results} {operands} {regions} regions {has_blocks} {list(attributes)}",
                lambda a=(results, operands, regions, has_blocks, attributes): use(*a),
            )


def crashes(operation_class, wanted):
    """What ended the process, as pairs of a text and a signal."""
    texts = [text for text, _ in acts(operation_class) if text.startswith(wanted)]
    begun, found = 0, []
    with tempfile.TemporaryFile() as output:
        while begun < len(texts):
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
                signal.alarm(SECONDS)
                chosen = [act for text, act in acts(operation_class) if text.startswith(wanted)]
                for number in range(begun, len(texts)):
                    os.write(writing, b".")
                    try:
                        chosen[number]()
                    except Exception:  # noqa: BLE001
                        pass
                os._exit(0)
            os.close(writing)
            with os.fdopen(reading, "rb") as progress:
                begun += len(progress.read())
            status = os.waitpid(child, 0)[1]
            if os.WIFSIGNALED(status):
                found.append((texts[begun - 1], signal.Signals(os.WTERMSIG(status)).name))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--slice", default="0/1", metavar="I/N", help="one of N parts")
    parser.add_argument("--only", default="", metavar="NAME", help="only operations whose name has this")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--list-inference", action="store_true")
    options = parser.parse_args()
    part, parts = map(int, options.slice.split("/"))
    classes = [each for each in operation_classes() if options.only in each.OPERATION_NAME]
    classes = classes[part::parts]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    context = ir.Context()
    context.allow_unregistered_dialects = True
    context.enable_multithreading(False)
    workers = []
    with context, ir.Location.unknown():
        for job in range(options.jobs):
            worker = os.fork()
            if worker == 0:
                bad = False
                for each in classes[job :: options.jobs]:
                    found = crashes(each, "infer" if options.list_inference else "")
                    bad = bad or bool(found)
                    if found and options.list_inference:
                        print(f'"{each.OPERATION_NAME}",', flush=True)
                        continue
                    for text, how in found:
                        print(f"{how} for {each.OPERATION_NAME}: {text}", flush=True)
                os._exit(bad)
            workers.append(worker)
    statuses = [os.waitpid(worker, 0)[1] for worker in workers]
    if not options.list_inference:
        print(f"{len(classes)} operations: {'found something' if any(statuses) else 'nothing found'}")
    return int(any(statuses))


if __name__ == "__main__":
    sys.exit(main())

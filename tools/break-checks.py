#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Takes the checks of the patched MLIR bindings out, one after the other, and says whether the tests notice.

Each row of upstream/llvm-22.1/COVERAGE.md that names a check has mutations below: changes of our sources or of the
patched ones that switch the check off. All of them are compiled into one build (build/broken), and the environment
variable LOT_BROKEN switches some of them on, so the product's sources know nothing of this. Every test that a row names
must pass with none of them, and must fail (a failed assertion, a crash, a hang) with at least one of its row's, or with
all of them together; and every mutation must make some test of its rows fail. A test gets two tries: in exact and in
structural mode.

    tools/break-checks.py [--only ROW] [--jobs N]   needs `tools/build.sh python-tests`; builds, then runs each test
                                                    some times
    tools/break-checks.py --list                    compares COVERAGE.md, tests, mutations and sources only: quick
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml

import limited

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINDINGS = ROOT / "upstream" / "llvm-22.1"
TESTS = ROOT / "tests" / "python"
UPSTREAM = ROOT / "build" / "upstream"  # the build of the bindings, which lends its packages and patched sources
BROKEN = ROOT / "build" / "broken"
SOURCE = BROKEN / "source" / "upstream" / "llvm-22.1"
SECONDS = 60  # a test that takes longer hangs

# ---- The mutations: (rows, effect, [file, what is replaced, by what]...). BROKEN stands for "this one is switched on".
# Without a replacement the text is a statement, which is left out. The text stands in the file exactly once.

SUPPORT = "src/python/MLIRPythonExtension.MLIRPythonSupport/"
CORE = "src/python/MLIRPythonExtension.Core/"
HEADERS = "include/mlir/Bindings/Python/"
IRCORE, PASS, REWRITE = SUPPORT + "IRCore.cpp", CORE + "Pass.cpp", CORE + "Rewrite.cpp"
TRANSFORM = "src/python/MLIRPythonExtension.TransformInterpreter/TransformInterpreter.cpp"
ENGINE = "src/python/MLIRPythonExtension.ExecutionEngine/ExecutionEngineModule.cpp"
LINALG = "src/python/MLIRPythonExtension.Dialects.Linalg.Nanobind/DialectLinalg.cpp"

OPERATIONS_OWN = ["PyOperation", "PyOpView", "PyRegion", "PyOpOperand", "PyOpOperandIterator", "PyOperationIterator", "PyBlockIterator",
                  "PyRegionIterator", "PyBlockList", "PyRegionList", "PyOpAttributeMap", "PyInsertionPoint", "PySymbolTable",
                  "PyConcreteOpInterface", "Sliceable", "apply_named_sequence", "functions that take operations or modules"]

MUTATIONS = [
    # ---- Operations.
    (OPERATIONS_OWN, "an operation is used without asking its ref",
     ["ir.cpp", "  if (!getTrackedRef().isLive())\n    raiseDead(getTrackedRef(), Subject::Operation, name);"]),
    (["PyOperation"], "each look makes another wrapper",
     ["ir.cpp", "  auto *existing = static_cast<PyOperation *>(tracked.user);",
      "  auto *existing = BROKEN ? nullptr : static_cast<PyOperation *>(tracked.user);"]),
    (["PyOperation"], "_set_invalid does nothing",
     ["ir.cpp", "void PyOperation::setInvalid() {\n  if (!isLive())", "void PyOperation::setInvalid() {\n  if (BROKEN || !isLive())"]),
    (["PyOperation/its ownership", "PyModule"], "what is in use is destroyed all the same",
     ["tracking.cpp", "  if (rootCount > 1 ? isInUse(operation) : isInFrame(operation)) {",
      "  if (!BROKEN && (rootCount > 1 ? isInUse(operation) : isInFrame(operation))) {"]),
    (["PyOperation/its ownership"], "roots of others are not counted",
     ["tracking.h", "inline void noteForeignRoot() { ++rootCount; }", "inline void noteForeignRoot() {\n  if (!BROKEN)\n    ++rootCount;\n}"]),
    (["PyOperation/its ownership"], "orphans stay",
     ["tracking.cpp", "for (bool changed = true; changed && ", "for (bool changed = !BROKEN; changed && "]),
    (["PyOperation/its ownership"], "nobody looks whether an operation is detached",
     ["ir.cpp", "  if (!attached && isLive() && ", "  if (!BROKEN && !attached && isLive() && "],
     ["ir.cpp", "  symbolOp.setAttached();"]),
    (["PyOperation/its ownership"], "a detached operation outlives its wrapper",
     ["ir.cpp", "  if (!owned || !destroyOwned(", "  if (BROKEN || !owned || !destroyOwned("]),
    (["PyOperation/in structural mode"], "nobody tells where an operation has moved",
     ["tracking.cpp", "    require(lot_mlir_c_moved(tracker.raw(), lot_mlir_c_operation(operation)));"]),
    (["PyOperation/in structural mode"], "nobody tells where a block has moved",
     ["tracking.cpp", "    require(lot_mlir_c_moved(tracker.raw(), lot_mlir_c_block(context, block)));"]),
    (["PyOperation/in structural mode"], "what the binding erases or drops is not reported",
     ["tracking.cpp", "  tracker.parentDestroy(operation.ptr).ignore();"],
     ["ir.cpp", "    tracker.erase(operation.ptr).ignore();"]),
    (["PyOperation/erase, move, detach, insert", "PySymbolTable"], "erasing what is in use is not refused",
     ["tracking.cpp", "  MlirOperation user = findOutsideUser(operation, results);",
      "  MlirOperation user = BROKEN ? MlirOperation{nullptr} : findOutsideUser(operation, results);"]),
    (["PyOperation/erase, move, detach, insert", "PySymbolTable"], "moving into itself is not refused",
     ["tracking.cpp", "  if (mlirOperationGetNumRegions(operation) != 0 && encloses(operation, mlirBlockGetParentOperation(block)))",
      "  if (!BROKEN && encloses(operation, mlirBlockGetParentOperation(block)))"]),
    (["PyOperation/erase, move, detach, insert"], "a module's own operation can be erased and moved",
     ["ir.cpp", "  if (getContext()->isModule(operation))", "  if (!BROKEN && getContext()->isModule(operation))"]),
    (["PyOperation/erase, move, detach, insert"], "what is nowhere passes for a place",
     ["ir.cpp", "  if (mlirBlockIsNull(mlirOperationGetBlock(operation)))\n    refuse(quotedName(operation) + \" is not in a block.\");"]),
    (["PyOperation/erase, move, detach, insert"], "a detached operation is moved like an attached one",
     ["ir.cpp", "  if (mlirBlockIsNull(home)) {", "  if (!BROKEN && mlirBlockIsNull(home)) {"]),
    (["PyOperation/erase, move, detach, insert", "PyPassManager/run", "apply_named_sequence"],
     "what MLIR is at work on can be erased and moved",
     ["gate.cpp", "    if (frame->kind == Frame::Kind::Kept)\n", "    if (BROKEN || frame->kind == Frame::Kind::Kept)\n"]),
    (["Frame"], "another thread changes what MLIR works on",
     ["gate.cpp", "    if (!frame->isMine() && isInside(*frame, operation))\n", "    if (!BROKEN && !frame->isMine() && isInside(*frame, operation))\n"],
     ["gate.cpp", "    bool allowed = !around && frame->isMine() && ", "    bool allowed = !around && (BROKEN || frame->isMine()) && "]),
    (["Frame"], "a run begins on whatever it likes",
     ["gate.cpp", "    if (frame == besides)\n", "    if (BROKEN || frame == besides)\n"]),
    (["Frame"], "a run begins under a driver",
     ["gate.cpp", "    if (frame->kind == Frame::Kind::Driver)\n      refuse(text", "    if (!BROKEN && frame->kind == Frame::Kind::Driver)\n      refuse(text"]),
    (["Frame"], "a run begins around what another one works on",
     ["gate.cpp", "    if (!inside && !isAround(*frame, root))", "    if (!inside && (BROKEN || !isAround(*frame, root)))"]),
    (["Frame"], "what a driver has in its list leaves its root",
     ["gate.cpp", "    if (frame->kind == Frame::Kind::Driver && isInside(*frame, operation) && ", "    if (!BROKEN && frame->kind == Frame::Kind::Driver && isInside(*frame, operation) && "]),
    (["Frame"], "a run begins on IR that is tied to other trees",
     ["gate.cpp", "  if (rootCount < 2)\n", "  if (BROKEN || rootCount < 2)\n"]),
    (["Frame"], "garbage keeps a run from beginning",
     ["gate.cpp", "    nanobind::module_::import_(\"gc\").attr(\"collect\")(); // PyGC_Collect does nothing if the program has switched it off"]),
    (["PyPatternRewriter"], "nobody looks at what a callback has left behind",
     ["callbacks.h", "    if (run && rootCount > roots)", "    if (!BROKEN && run && rootCount > roots)"]),
    (["PyOperation/walk"], "a walk goes on inside of what has ended",
     ["ir.cpp", "      if (!level.operation->isLive())\n        return {};\n      if (level.blocks)", "      if (!BROKEN && !level.operation->isLive())\n        return {};\n      if (level.blocks)"]),
    (["PyOperation/walk"], "a walk does not stop",
     ["ir.cpp", "    return result != PyWalkResult::Interrupt;", "    return BROKEN || result != PyWalkResult::Interrupt;"]),
    (["PyOperation/print, write_bytecode, get_asm"], "a file gets the text while MLIR prints",
     [HEADERS + "NanobindUtils.h", "      static_cast<PyFileAccumulator *>(userData)->text.append(part.data,",
      """      if (BROKEN) {
        auto *self = static_cast<PyFileAccumulator *>(userData);
        nanobind::object &write = std::get<nanobind::object>(self->writeTarget);
        if (self->binary)
          write(nanobind::bytes(part.data, part.length));
        else
          write(nanobind::str(part.data, part.length));
        return;
      }
      static_cast<PyFileAccumulator *>(userData)->text.append(part.data,"""]),
    (["PyOperation/walk", "PyPassManager/run", "PyDiagnosticHandler"], "Ctrl-C is taken for an error",
     ["callbacks.h", "    if (!error.matches(PyExc_Exception))\n", "    if (!BROKEN && !error.matches(PyExc_Exception))\n"],
     ["diagnostics.cpp", "      if (!error.matches(PyExc_Exception)) {", "      if (!BROKEN && !error.matches(PyExc_Exception)) {"]),

    # ---- Modules, contexts.
    (["PyModule", "functions that take operations or modules"], "a cleared module is used",
     ["ir.cpp", "  if (mlirModuleIsNull(module))\n    raiseInvalidated("
      "\"the module has been invalidated: it was cleared, since somebody else owns it now\");"]),
    (["PyModule", "PyPDLPatternModule"], "clearing a module does nothing",
     ["ir.cpp", "void PyModule::clearMlirModule() {\n  if (mlirModuleIsNull(module))", "void PyModule::clearMlirModule() {\n  if (BROKEN || mlirModuleIsNull(module))"]),
    (["PyModule"], "a module's wrapper does not report its own end",
     ["ir.cpp", "  tracker.destroyed(this).ignore();"]),
    (["PyModule"], "an operation does not keep its module",
     ["ir.cpp", "  created->parentKeepAlive = std::move(parentKeepAlive);"],
     ["ir.cpp", "        existing->parentKeepAlive = std::move(parentKeepAlive);"]),
    (["PyMlirContext", "PyAttribute", "PyDialect", "PyAffineMapExprList", "attribute and type classes",
      "types and attributes of the dialects"],
     "what belongs to a context does not hold it",
     [HEADERS + "IRCore.h", "  BaseContextObject(PyMlirContextRef ref) : contextRef(std::move(ref)) {",
      "  BaseContextObject(PyMlirContextRef ref)\n"
      "      : contextRef(BROKEN ? PyMlirContextRef(ref.get(), nanobind::object()) : std::move(ref)) {"]),
    (["PyMlirContext"], "a context does not hold its thread pool",
     [IRCORE, "            mlirContextSetThreadPool(self.get(), pool.get());\n          },\n          nb::keep_alive<1, 2>(),",
      """            mlirContextSetThreadPool(self.get(), pool.get());
            if (!BROKEN)
              nb::detail::keep_alive(nb::find(self).ptr(), nb::find(pool).ptr());
          },"""]),
    (["PyNamedAttribute"], "a named attribute does not hold its context",
     [IRCORE, "      context(PyMlirContext::forContext(mlirAttributeGetContext(attr))) {",
      "      context(BROKEN ? PyMlirContextRef(nullptr, nb::object())\n"
      "                     : PyMlirContext::forContext(mlirAttributeGetContext(attr))) {"]),

    # ---- Blocks, values, iterators, views.
    (["PyBlock", "PyRegion", "PyOperationList", "PyInsertionPoint", "PyOperationIterator", "PyBlockIterator"],
     "a block is used without asking its ref",
     ["ir.cpp", "  if (!ref.isLive())\n    raiseDead(ref, Subject::Block, parentOperation.get()->getName());"]),
    (["PyBlock", "PyOperation/in structural mode"], "a block's owner is the one it had at first",
     ["ir.cpp", "  if (owner.ptr != parentOperation->getAddress() || !parentOperation->isLive())\n    parentOperation = ownerOf(getContext(), block);"]),
    (["PyRegion"], "a region is used without asking for its operation",
     [HEADERS + "IRCore.h", "  MlirRegion get() {\n    checkValid();\n    return region;", "  MlirRegion get() {\n    if (!BROKEN)\n      checkValid();\n    return region;"]),
    (["PyValue"], "a result is used without asking for its operation",
     ["ir.cpp", "    if (!parentOperation.get()->isLive())\n      raiseDead(", "    if (!BROKEN && !parentOperation.get()->isLive())\n      raiseDead("]),
    (["PyValue", "PyBlockArgument"], "a block argument is used without asking its ref",
     ["ir.cpp", "  if (!argument.isLive())", "  if (!BROKEN && !argument.isLive())"]),
    (["PyBlockArgument"], "erase_argument is not reported",
     [IRCORE, "            (void)lot_python::tracker.erase(argument.ptr);"]),
    (["PyOpOperand"], "an operand's number is not compared with what its owner has",
     ["ir.cpp", "  if (static_cast<intptr_t>(number) >= mlirOperationGetNumOperands(owner.get()->get()))",
      "  if (static_cast<intptr_t>(number) >= mlirOperationGetNumOperands(owner.get()->get()) && !BROKEN)"]),
    (["PyOpOperandIterator"], "uses of operations that have ended are given",
     ["ir.cpp", "    if (use.isLive())\n      return use;", "    if (BROKEN || use.isLive())\n      return use;"]),
    (["PyOpOperandIterator"], "the next use is the one behind the last one",
     [HEADERS + "IRCore.h", "private:\n  mutable PyOperationRef owner;", "  mutable PyOperationRef owner;"],
     [HEADERS + "IRCore.h", "  std::vector<PyOpOperand> uses; // the last one is the next",
      "  std::vector<PyOpOperand> uses;\n  std::optional<PyOpOperand> given;"],
     ["ir.cpp", "  while (!uses.empty()) {\n    PyOpOperand use = std::move(uses.back());\n    uses.pop_back();",
      """  if (BROKEN && given) {
    uses.clear();
    MlirOperation owner = given->owner->get();
    auto isGiven = [&](MlirOpOperand use) {
      return mlirOpOperandGetOwner(use).ptr == owner.ptr && mlirOpOperandGetOperandNumber(use) == given->number;
    };
    MlirOpOperand use = mlirValueGetFirstUse(mlirOperationGetOperand(owner, given->number));
    while (!isGiven(use))
      use = mlirOpOperandGetNextUse(use);
    use = mlirOpOperandGetNextUse(use);
    if (!mlirOpOperandIsNull(use))
      uses.emplace_back(PyOperation::forOperation(given->owner->getContext(), mlirOpOperandGetOwner(use)),
                        mlirOpOperandGetOperandNumber(use));
  }
  while (!uses.empty()) {
    PyOpOperand use = std::move(uses.back());
    uses.pop_back();
    given = use;"""]),
    (["PyOperationIterator", "PyOperation/walk"], "an iterator does not look whether its next operation still is there",
     ["ir.cpp", "  if (!isHere(*next)) {\n    if (!last || !isHere(*last))\n      raiseInvalidated(\"the operation",
      "  if (!BROKEN && !isHere(*next)) {\n    if (!last || !isHere(*last))\n      raiseInvalidated(\"the operation"]),
    (["PyOperationIterator", "PyOperation/walk"], "an iterator goes on behind the last operation, even if that has gone",
     ["ir.cpp", "  auto isHere = [&](PyOperationRef &operation) {", "  if (BROKEN && last) {\n"
      "    MlirOperation following = mlirOperationGetNextInBlock((*last)->get());\n    next.reset();\n"
      "    if (!mlirOperationIsNull(following))\n      next = PyOperation::forOperation(block.getContext(), following);\n"
      "    else\n      return {};\n  }\n"
      "  auto isHere = [&](PyOperationRef &operation) {"]),
    (["PyBlockIterator"], "an iterator does not look whether its next block still is there",
     ["ir.cpp", "  if (!isHere(*next)) {\n    if (!last || !isHere(*last))\n      raiseInvalidated(\"the block",
      "  if (!BROKEN && !isHere(*next)) {\n    if (!last || !isHere(*last))\n      raiseInvalidated(\"the block"]),
    (["PyRegionList", "PyBlockSuccessors"], "an index is not compared with the length now",
     [HEADERS + "NanobindUtils.h", "    if (linearIndex < 0 ||\n        linearIndex >=", "    if (BROKEN) {\n    } else if (linearIndex < 0 ||\n        linearIndex >="]),
    (["PyRegionList"], "an assignment takes any index",
     [HEADERS + "NanobindUtils.h", "    if (index < 0)\n      throw nanobind::index_error(\"index out of range\");\n    return index;",
      "    if (index < 0 && !BROKEN)\n      throw nanobind::index_error(\"index out of range\");\n    return index;"]),
    (["PyRegionList"], "an assignment to a slice goes to the whole list",
     [IRCORE, "  index = linearizeIndex(requireIndex(index));\n  lot_python::setOperand(",
      "  index = BROKEN ? requireIndex(index) : linearizeIndex(requireIndex(index));\n  lot_python::setOperand("]),
    (["PyRegionList"], "a successor is assigned without a look at the index",
     [IRCORE, "  index = linearizeIndex(requireIndex(index));\n  lot_python::setSuccessor(",
      "  index = BROKEN ? index : linearizeIndex(requireIndex(index));\n  lot_python::setSuccessor("]),
    (["Sliceable"], "an exception leaves a raw slot",
     ["slots.h", "Result guardSlot(Result failed, Function &&function) noexcept {\n",
      "Result guardSlot(Result failed, Function &&function) noexcept {\n  if (BROKEN)\n    return function();\n"]),
    (["PyOpAttributeMap"], "attributes are read while Python looks at them",
     [IRCORE, "  for (MlirNamedAttribute na : attributes) {\n    MlirStringRef name",
      "  for (size_t at = 0; at < attributes.size(); ++at) {\n"
      "    MlirNamedAttribute na = BROKEN ? mlirOperationGetAttribute(op, at) : attributes[at];\n    MlirStringRef name"]),

    # ---- Insertion points, the stack of contexts, symbol tables, printing.
    (["PyInsertionPoint"], "a point does not follow its operation",
     ["ir.cpp", "    if (home.ptr != block.getAddress() || !block.isLive())\n      block = (*refOperation)->getBlock();"]),
    (["PyInsertionPoint"], "what is attached can be inserted",
     ["ir.cpp", "  if (operation.isAttached())\n    throw nb::value_error(\"Attempt to insert", "  if (!BROKEN && operation.isAttached())\n    throw nb::value_error(\"Attempt to insert"]),
    (["PyThreadContextEntry"], "a thread drops its entries without the GIL",
     [IRCORE, "      nb::gil_scoped_acquire acquire;\n      lot_python::drop(*this);", "      std::optional<nb::gil_scoped_acquire> acquire;\n      if (!BROKEN)\n        acquire.emplace();\n      lot_python::drop(*this);"]),
    (["PyThreadContextEntry"], "entries are dropped when Python is gone",
     [IRCORE, "      if (!lot_python::canUsePython()) {", "      if (!BROKEN && !lot_python::canUsePython()) {"]),
    (["PyThreadContextEntry"], "an empty stack is popped",
     [IRCORE, "  if (stack.empty())\n    throw std::runtime_error(\"Unbalanced Context enter/exit\");"],
     [IRCORE, "  if (stack.empty())\n    throw std::runtime_error(\"Unbalanced InsertionPoint enter/exit\");"]),
    (["PySymbolTable"], "a table believes its pointers",
     ["ir.cpp", "  if (changes != operation->getState().changes ||", "  if ((!BROKEN && changes != operation->getState().changes) ||"]),
    (["PySymbolTable"], "a table does not care that somebody had a capsule",
     ["ir.cpp", " outsideChanges != lot_python::outsideChanges())", " (!BROKEN && outsideChanges != lot_python::outsideChanges()))"]),
    (["PySymbolTable"], "a table is not told of new names",
     ["ir.cpp", "  if (mlirAttributeIsNull(now) || ", "  if (BROKEN) {\n  } else if (mlirAttributeIsNull(now) || "],
     [IRCORE, "  lot_python::setAttribute(operation.get(), attrName, newNameAttr);\n  ++operation.getState().changes;",
      "  lot_python::setAttribute(operation.get(), attrName, newNameAttr);\n  if (!BROKEN)\n    ++operation.getState().changes;"]),
    (["PySymbolTable"], "a table erases what is not in it",
     ["ir.cpp", "  if (mlirOperationGetParentOperation(symbolOp.get()).ptr != operation->getAddress())",
      "  if (!BROKEN && mlirOperationGetParentOperation(symbolOp.get()).ptr != operation->getAddress())"]),
    (["PySymbolTable"], "what is in one table is inserted into another",
     ["ir.cpp", "  } else if (parent.ptr != operation->getAddress()) {", "  } else if (!BROKEN && parent.ptr != operation->getAddress()) {"]),
    (["PySymbolTable"], "MLIR makes a table of symbols that share a name",
     ["ir.cpp", "      if (op.ptr == without.ptr || !names", "      if (BROKEN) {\n      } else if (op.ptr == without.ptr || !names"]),
    (["PySymbolTable"], "a walk over tables gives those that have ended",
     [IRCORE, "    if (!operations[i]->isLive())\n      continue;", "    if (!BROKEN && !operations[i]->isLive())\n      continue;"]),
    (["PyAsmState"], "a state is used without asking for its operation",
     [HEADERS + "IRCore.h", "    root->checkValid();\n    return state;", "    if (!BROKEN)\n      root->checkValid();\n    return state;"]),
    (["PyAsmState", "PyValue"], "a state is made of a value whose operation is not asked for",
     ["ir.cpp", "    if (!parentOperation.get()->isLive())\n      raiseDead(", "    if (!BROKEN && !parentOperation.get()->isLive())\n      raiseDead("]),
    (["PyDialectRegistry"], "a registry is used after it was given away",
     [HEADERS + "IRCore.h", "    if (mlirDialectRegistryIsNull(registry))\n      lot_python", "    if (!BROKEN && mlirDialectRegistryIsNull(registry))\n      lot_python"]),
    (["PyDiagnostic"], "a diagnostic is used after its callback",
     ["diagnostics.cpp", "void PyDiagnostic::checkValid() {\n  if (!valid)", "void PyDiagnostic::checkValid() {\n  if (!BROKEN && !valid)"]),
    (["PyDiagnostic"], "notes are valid for ever",
     ["diagnostics.cpp", "      nb::inst_ptr<PyDiagnostic>(note)->invalidate();"]),
    (["PyDiagnosticHandler"], "a handler does not hear that its context has gone",
     ["diagnostics.cpp", "    nb::inst_ptr<PyDiagnosticHandler>(handler)->registeredID.reset();"]),
    (["PyDiagnosticHandler"], "a handler that is detached is told",
     ["diagnostics.cpp", "    if (!handler.isAttached() || ", "    if ((!BROKEN && !handler.isAttached()) || "]),
    (["PyDiagnosticHandler"], "a handler is told of what was before it",
     ["diagnostics.cpp", "  handler.registeredID = emitted + 1;", "  handler.registeredID = BROKEN ? 0 : emitted + 1;"]),
    (["PyDiagnosticHandler"], "a handler's circle is not collected",
     ["diagnostics.cpp", "  for (const nb::object &handler : diagnostics.handlers)\n    Py_VISIT(", "  for (const nb::object &handler : diagnostics.handlers)\n    if (!BROKEN) Py_VISIT("]),
    (["PyDiagnosticHandler"], "the context ends while its handlers are told",
     ["diagnostics.cpp", "  nb::object holder = diagnostics->hold(); // a handler may drop the last reference\n", "  nb::object holder = BROKEN ? nb::object() : diagnostics->hold();\n"]),
    (["DiagnosticScope"], "an error of any thread is taken for this one's",
     ["diagnostics.cpp", "  DiagnosticScope *scope = innermost;", "  DiagnosticScope *scope = BROKEN ? nullptr : innermost;"]),
    (["DiagnosticScope"], "what nobody handles is lost",
     ["diagnostics.cpp", "  if (!isError(copy))\n", "  if (BROKEN || !isError(copy))\n"]),
    (["DiagnosticScope"], "an error of a pass that succeeds is lost",
     ["diagnostics.cpp", "    if (!warn || interruption || ", "    if (!warn || BROKEN || interruption || "]),
    (["DiagnosticScope"], "a run is over when its handlers have been told",
     ["callbacks.cpp", "  frame.reset(); // tells what has ended", "  if (!BROKEN)\n    frame.reset();"]),

    # ---- Arguments.
    (["objects of two contexts"], "contexts are mixed",
     ["one_context.h", "    if (context.ptr)\n      raiseMixedContexts();", "    if (!BROKEN && context.ptr)\n      raiseMixedContexts();"]),
    (["the default context or location"], "a default does not hold what it has found",
     [HEADERS + "NanobindUtils.h", "keepAlive(nanobind::find(referrent))", "keepAlive(BROKEN ? nanobind::object() : nanobind::find(referrent))"]),
    (["sequences that run Python code"], "sequences are asked when some operands have been fetched",
     ["arguments.cpp", "                PySequence_Check(items[i].ptr());", "                !BROKEN && PySequence_Check(items[i].ptr());"]),
    (["sequences that run Python code"], "elements that are pointed to are let go of",
     ["containers.h", "        cleanup->append(element.release().ptr());", "        if (!BROKEN)\n          cleanup->append(element.release().ptr());"]),
    (["sequences that run Python code"], "a list of numbers is read while it changes",
     ["containers.h", "    llvm::SmallVector<nanobind::object, 8> elements;\n",
      "    llvm::SmallVector<nanobind::object, 8> elements;\n"
      "    if (BROKEN && std::is_arithmetic_v<Entry>)\n"
      "      return nanobind::detail::list_caster<List, Entry>::from_python(source, flags, cleanup);"]),
    (["sequences that run Python code"], "operands are not asked again when all are there",
     ["arguments.cpp", "    raw.push_back(value.get());",
      "    raw.push_back(BROKEN ? MlirValue{const_cast<void *>(value.getAddress())} : value.get());"]),
    (["sequences that run Python code"], "the home of a new block is not asked",
     [IRCORE, "  BlockSpec spec(pyArgTypes, pyArgLocs);\n  operation->checkValid();\n",
      "  BlockSpec spec(pyArgTypes, pyArgLocs);\n  if (!BROKEN)\n    operation->checkValid();\n"],
     ["arguments.cpp", "mlirOperationGetContext(home.get())", "BROKEN ? home.getContext()->get() : mlirOperationGetContext(home.get())"]),
    (["sequences that run Python code"], "exceptions of a replacement are not held",
     ["arguments.h", "  explicit Owned(nanobind::handle sequence) : objects(copyOf(sequence)) {",
      "  explicit Owned(nanobind::handle sequence) : objects(copyOf(sequence)) {\n"
      "    if (BROKEN) {\n      nanobind::tuple other = copyOf(sequence);\n      for (nanobind::handle object : other)\n"
      "        elements.push_back(&nanobind::cast<T &>(object));\n      return;\n    }"]),
    (["what MLIR asserts"], "types of any width are made",
     ["checked_calls.cpp", "  if (width > kMostBits)", "  if (!BROKEN && width > kMostBits)"]),
    (["what MLIR asserts"], "a wide integer is read as 64 bits",
     ["checked_calls.cpp", "  if (!mlirTypeIsAInteger(type) || mlirIntegerTypeGetWidth(type) <= 64)", "  if (BROKEN || !mlirTypeIsAInteger(type) || mlirIntegerTypeGetWidth(type) <= 64)"]),
    (["what MLIR asserts"], "a dialect is loaded twice",
     ["checked_calls.cpp", "    if (name && (!names.insert", "    if (!BROKEN && name && (!names.insert"]),
    (["what MLIR asserts"], "the last stride of a buffer without dimensions is read",
     [SUPPORT + "IRAttributes.cpp", "        view->ndim ? view->strides", "        BROKEN || view->ndim ? view->strides"]),
    (["indexes"], "an index is not looked at",
     ["checked_calls.cpp", "  if (index < 0 || index >= count)", "  if (!BROKEN && (index < 0 || index >= count))"]),
    (["what is not valid"], "runs do not look at what they are given",
     ["callbacks.cpp", "  if (!fault.empty())", "  if (!BROKEN && !fault.empty())"]),
    (["what is not valid"], "all that the verifier reports keeps a run from beginning",
     ["checked_calls.cpp", "  return isValid || !concernsMake(errors.text) ?", "  return isValid || (!BROKEN && !concernsMake(errors.text)) ?"]),
    (["what is not valid"], "scripts and the compiler do not look at what they are given",
     ["checked_calls.cpp", "  std::string fault = findFault(operation, Use::Otherwise);", "  std::string fault = BROKEN ? \"\" : findFault(operation, Use::Otherwise);"]),
    (["what is not valid"], "assume_verified is believed",
     [IRCORE, "  if (assumeVerified && lot_python::isValid(operation))", "  if (assumeVerified && (BROKEN || lot_python::isValid(operation)))"]),
    (["what is not valid"], "a state is believed",
     ["checked_calls.cpp", "  if (isValid(operation))\n    return ::mlirOperationPrintWithState", "  if (BROKEN || isValid(operation))\n    return ::mlirOperationPrintWithState"]),
    (["what is not valid"], "the inliner runs where it does not know all symbol tables",
     ["checked_calls.cpp", "  if (found == std::string::npos)\n    return;", "  if (BROKEN || found == std::string::npos)\n    return;"]),
    (["what a callback leaves not valid"], "changes are not noted",
     ["callbacks.cpp", "  edited = true;\n", "  if (BROKEN)\n    return;\n  edited = true;\n"]),
    (["what a callback leaves not valid"], "nobody asks what was noted",
     ["callbacks.cpp", "  if (!std::exchange(edited, false))", "  if (BROKEN || !std::exchange(edited, false))"]),
    (["what a callback leaves not valid"], "a branch may be anywhere",
     ["checked_calls.cpp", "      previous && previous->getNumSuccessors() != 0)", "      !BROKEN && previous && previous->getNumSuccessors() != 0)"]),
    (["what a callback leaves not valid"], "a branch may lead anywhere",
     ["checked_calls.cpp", "    if (successor->getParent() != operation->getParentRegion())", "    if (!BROKEN && successor->getParent() != operation->getParentRegion())"]),
    (["what a callback leaves not valid"], "values need not dominate what was changed",
     ["checked_calls.cpp", "    if (fault.empty() && operation->getBlock() && dominance.", "    if (!BROKEN && fault.empty() && operation->getBlock() && dominance."]),
    (["what a callback leaves not valid"], "users of what was moved are not looked at",
     ["checked_calls.cpp", "    if ((edit & Edit::Users) == Edit::Users)", "    if (!BROKEN && (edit & Edit::Users) == Edit::Users)"]),
    (["what a callback leaves not valid"], "what ends stays noted",
     ["callbacks.cpp", "  if (edits.empty())\n    return;\n", "  if (BROKEN || edits.empty())\n    return;\n"]),
    (["inference of types"], "types are inferred from anything",
     ["checked_calls.cpp", "  if (!kind || !uncheckedInference().contains(name))", "  if (BROKEN || !kind || !uncheckedInference().contains(name))"]),
    (["texts and locations"], "brackets are not counted",
     ["checked_calls.cpp", "      if (++depth > deepest)", "      if (!BROKEN && ++depth > deepest)"]),
    (["texts and locations"], "an empty text is parsed",
     ["checked_calls.cpp", "  return text.length ? text :", "  return BROKEN || text.length ? text :"]),
    (["texts and locations"], "a location has any number of frames",
     ["checked_calls.cpp", "    if (++depth == 10000)", "    if (!BROKEN && ++depth == 10000)"]),
    (["shared libraries"], "MLIR is given libraries that cannot be loaded",
     ["checked_calls.cpp", "llvm::sys::fs::exists(path))", "!BROKEN && llvm::sys::fs::exists(path))"]),
    (["garbage that is tied to a run's IR"], "garbage is collected when the root has been looked at",
     ["gate.cpp", "void collectStrays(MlirOperation root) {\n", "void collectStrays(MlirOperation root) {\n  if (BROKEN)\n    return;\n"]),
    (["PyDiagnostic"], "a diagnostic keeps its context",
     ["diagnostics.cpp", "  context.reset();\n", "  if (!BROKEN)\n    context.reset();\n"]),
    (["trees that use the result of an operation in no block"], "nobody looks where operands are defined",
     ["checked_calls.cpp", "          if (mlirBlockIsNull(mlirOperationGetBlock(mlirOpResultGetOwner(operand)))) {",
      "          if (!BROKEN && mlirBlockIsNull(mlirOperationGetBlock(mlirOpResultGetOwner(operand)))) {"]),
    (["ir.Operation replaced by something else"], "classes are looked for where programs see them",
     [HEADERS + "NanobindAdaptors.h", "            MAKE_MLIR_PYTHON_QUALNAME(\"_mlir_libs._mlir.ir\")));",
      "            BROKEN ? MAKE_MLIR_PYTHON_QUALNAME(\"ir\") : MAKE_MLIR_PYTHON_QUALNAME(\"_mlir_libs._mlir.ir\")));"]),
    (["type casters of programs that raise", "Sliceable"], "an exception leaves a function that must not throw",
     ["slots.h", "  try {\n    return std::forward<Function>(function)();\n  } catch (...) {\n    setPythonError();",
      "  if (BROKEN)\n    return function();\n  try {\n    return std::forward<Function>(function)();\n  } catch (...) {\n    setPythonError();"]),
    (["PyOpView"], "any class of nanobind can be an operation's",
     ["ir.cpp", "  if (PyType_Check(cls.ptr()) && !isView)", "  if (!BROKEN && PyType_Check(cls.ptr()) && !isView)"]),
    (["PyBlockArgument"], "the text of a block argument stops at its block",
     ["tracking.cpp", "    if (lot_death ancestor; !act && ", "    if (lot_death ancestor; !BROKEN && !act && "]),
    (["PyRegionIterator"], "an iterator over a view of regions goes forward to the end",
     [IRCORE, "  return PyRegionIterator(operation, startIndex, step, length);",
      "  return BROKEN ? PyRegionIterator(operation, startIndex, 1, mlirOperationGetNumRegions(operation->get()) - startIndex)\n"
      "                : PyRegionIterator(operation, startIndex, step, length);"]),
    (["PyRegionList"], "a successor shows what encloses it",
     ["ir.cpp", "  return shower && (*shower)->isLive() ? *shower : owner;", "  return !BROKEN && shower && (*shower)->isLive() ? *shower : owner;"]),
    (["PyInsertionPoint"], "a point is made in a dead block",
     [IRCORE, "PyInsertionPoint::PyInsertionPoint(const PyBlock &block) : block(block) {\n  block.checkValid();",
      "PyInsertionPoint::PyInsertionPoint(const PyBlock &block) : block(block) {\n  if (!BROKEN)\n    block.checkValid();"]),
    (["PyThreadContextEntry"], "an entry is dropped while it is in the stack",
     ["slots.h", "  Entry last = std::move(stack.back());\n  stack.pop_back();",
      "  if (BROKEN)\n    return stack.pop_back();\n  Entry last = std::move(stack.back());\n  stack.pop_back();"]),
    (["PySymbolTable"], "a table does not hear of a name that is set as an attribute",
     ["tracking.cpp", "  if (mlirStringRefEqual(mlirStringRefCreate(name.data(), name.size()), symbolName))",
      "  if (!BROKEN && mlirStringRefEqual(mlirStringRefCreate(name.data(), name.size()), symbolName))"]),
    (["PySymbolTable"], "a table without a block is inserted into",
     ["ir.cpp", "  refresh(raw); // raises if the table has lost its block", "  if (!BROKEN)\n    refresh(raw);"]),
    (["PyAsmState"], "a state gives names by address",
     ["known_values.cpp", "  return found != refs.end() && !found->second.isLive();", "  return !BROKEN && found != refs.end() && !found->second.isLive();"]),
    (["PyAsmState"], "what a state has named counts as referred to",
     ["ir.cpp", "    count += user != nullptr;", "    count += BROKEN || user != nullptr;"]),

    # ---- Observers.
    (["OperationEnd", "OperationEndHandler"], "nothing is noted while an operation lives",
     ["observers.cpp", "  observed.note(wrapper, observed.wantsStack());"]),
    (["OperationEnd", "OperationEndHandler"], "what has yet to be told does not hold its context",
     ["observers.cpp", "      ref.epoch(), Origin{wrapper.getContext(), ",
      "      ref.epoch(), Origin{BROKEN ? PyMlirContextRef(wrapper.getContext().get(), nb::object()) : wrapper.getContext(), "]),
    (["OperationEndHandler"], "ends are told of inside of MLIR",
     ["observers.cpp", "  if (deferrals > 0 || telling)", "  if ((!BROKEN && deferrals > 0) || telling)"],
     ["observers.cpp", "  if (--deferrals > 0 || !hasSomethingToTell())", "  if ((--deferrals > 0 && !BROKEN) || !hasSomethingToTell())"]),
    (["OperationEndHandler"], "ends are told of while another thread is at work in their context",
     ["observers.cpp", "return !isAtWork(told.origin.context.get()->get());", "return BROKEN || !isAtWork(told.origin.context.get()->get());"]),
    (["OperationEndHandler"], "a handler that was detached is told",
     ["observers.cpp", "    if (!handler.observed)\n      continue;"]),
    (["OperationEndHandler"], "Python's garbage collector does not see the handlers of a context",
     ["observers.cpp", "      Py_VISIT(handler.ptr());"]),

    # ---- Capsules, parameters.
    (["capsules", "typed parameters", "PyModule", "PyBlockArgument"], "a capsule is believed",
     ["tracking.cpp", "    requireCapsuleLive(ticket->ref);"]),
    (["capsules"], "a capsule does not keep its owner",
     ["tracking.cpp", "    tickets()[capsule.ptr()] = Ticket{ref, std::move(owner), false};",
      "    tickets()[capsule.ptr()] = Ticket{ref, BROKEN ? nb::object() : std::move(owner), false};"]),
    (["capsules", "PyPassManager", "PyFrozenRewritePatternSet", "PyExecutionEngine", "PyDialectRegistry"],
     "a capsule gives away its owner again and again",
     ["tracking.cpp", "  if (ticket->taken)", "  if (!BROKEN && ticket->taken)"],
     ["tracking.cpp", "  return std::move(ticket->owner);", "  return BROKEN ? nb::object() : std::move(ticket->owner);"]),
    (["capsules"], "a capsule of something else is taken for an operation or a value",
     ["ir.cpp", "  if (mlirOperationIsNull(operation))\n    throw nb::python_error();"],
     ["ir.cpp", "  if (mlirValueIsNull(value))\n    throw nb::python_error();"]),
    (["typed parameters"], "a capsule as a parameter is not looked at",
     ["adaptors.h", "    nanobind::module_::import_(irModule).attr(\"_lot_check_capsule\")(object);"]),
    (["typed parameters"], "a dead reference as a parameter is \"something else\"",
     ["adaptors.h", "    if (!PyErr_ExceptionMatches(PyExc_AttributeError))", "    if (!BROKEN && !PyErr_ExceptionMatches(PyExc_AttributeError))"]),
    (["typed parameters"], "a dead value is \"no such value\" for a subclass",
     [HEADERS + "NanobindAdaptors.h", "          static_cast<void>(nanobind::detail::lotLiveObjectToCapsule(otherValue));"]),
    (["typed parameters"], "nanobind's own casters read a container",
     ["containers.h", "    this->value.clear();",
      "    if (BROKEN)\n      return nanobind::detail::list_caster<List, Entry>::from_python(source, flags, cleanup);\n"
      "    this->value.clear();"]),
    (["PyShapedTypeComponents"], "shaped type components do not hold their context",
     [CORE + "IRInterfaces.cpp", "    if (!mlirTypeIsNull(elementType))\n      context =", "    if (!BROKEN && !mlirTypeIsNull(elementType))\n      context ="]),
    (["PyLinalgContractionDimensions"], "contraction dimensions do not hold their context",
     [LINALG, "  PyLinalgContractionDimensions(const MlirLinalgContractionDimensions &dims)\n      : context(",
      "  PyLinalgContractionDimensions(const MlirLinalgContractionDimensions &dims)\n"
      "      : context(BROKEN ? PyMlirContextRef(nullptr, nb::object()) : "]),
    (["PyLinalgContractionDimensions"], "convolution dimensions do not hold their context",
     [LINALG, "  PyLinalgConvolutionDimensions(const MlirLinalgConvolutionDimensions &dims)\n      : context(",
      "  PyLinalgConvolutionDimensions(const MlirLinalgConvolutionDimensions &dims)\n"
      "      : context(BROKEN ? PyMlirContextRef(nullptr, nb::object()) : "]),

    # ---- Runs of C++ code.
    (["PyPassManager"], "a released pass manager is used",
     [PASS, "    if (mlirPassManagerIsNull(passManager))\n      lot_python", "    if (!BROKEN && mlirPassManagerIsNull(passManager))\n      lot_python"]),
    (["PyPassManager"], "a pass manager is changed while it runs",
     [PASS, "    if (running)", "    if (!BROKEN && running)"]),
    (["PyPassManager", "PyMlirContext"], "a pass manager does not hold its context",
     [PASS, "            new (&self) PyPassManager(passManager);\n            self.context = context->getRef().getObject();",
      "            new (&self) PyPassManager(passManager);\n            if (!BROKEN)\n              self.context = context->getRef().getObject();"]),
    (["PyPassManager/run", "apply_named_sequence", "PyDiagnosticHandler"], "a run ends nothing",
     ["callbacks.cpp", "void OpaqueRun::endAllBelow() noexcept {\n", "void OpaqueRun::endAllBelow() noexcept {\n  if (BROKEN)\n    return;\n"]),
    (["PyPassManager/run"], "a run ends what is beside it",
     ["callbacks.cpp", "  tracker.opaqueMutation(root.ptr).ignore(); // in exact mode this ends nothing",
      "  MlirOperation top = root;\n"
      "  for (MlirOperation up = top; BROKEN && !mlirOperationIsNull(up); up = mlirOperationGetParentOperation(up))\n"
      "    top = up;\n  tracker.opaqueMutation(top.ptr).ignore();"]),
    (["PyPassManager/run", "apply_named_sequence"], "a run ends its root",
     ["callbacks.cpp", "  closed = true;\n", "  closed = true;\n  if (BROKEN)\n    tracker.erase(root.ptr).ignore();\n"]),
    (["PyPassManager/run", "apply_named_sequence"], "nobody knows which run ended an operation",
     ["tracking.cpp", "  return act && act->opaque && ", "  return !BROKEN && act && act->opaque && "]),
    (["PyPassManager/run", "PyPatternRewriter", "PyMlirPDLResultList"], "what a callback raises is lost",
     ["callbacks.cpp", "  if (std::exception_ptr raised = std::move(error))", "  if (std::exception_ptr raised = std::move(error); raised && !BROKEN)"]),
    (["PyPassManager/run"], "a Python pass for another operation can be added",
     [PASS, "            if (!opName.empty() && ", "            if (!BROKEN && !opName.empty() && "]),
    (["PyPassManager/run"], "a Python pass must not change anything",
     [PASS, "                lot_python::WritableScope writable(op);", "                lot_python::WritableScope writable(BROKEN ? MlirOperation{nullptr} : op);"]),
    (["PyPassManager/run"], "a module ends while a pass works on it",
     ["gate.cpp", "  return std::any_of(frames.begin(), frames.end(), [&](Frame *frame) { return encloses(operation, frame->root); });",
      "  return !BROKEN &&\n         std::any_of(frames.begin(), frames.end(), [&](Frame *frame) { return encloses(operation, frame->root); });"]),
    (["PyMlirExternalPass", "PyPatternRewriter", "PyMlirPDLResultList"], "objects of a callback can be used after it",
     ["callbacks.h", "    if (!*active)\n", "    if (!BROKEN && !*active)\n"]),
    (["PyPatternRewriter"], "Operation.erase does not go through the rewriter",
     ["ir.cpp", "    if (rewrite)\n      lot_python::eraseBy(", "    if (!BROKEN && rewrite)\n      lot_python::eraseBy("]),
    (["PyPatternRewriter"], "a rewriter erases whatever it is asked to",
     [REWRITE, "    op.requireMovable();"], ["ir.cpp", "  requireMovable();\n  requireEndable(operation);"], ["ir.cpp", "  requireUnused(operation, resultsToo);"]),
    (["PyPatternRewriter"], "MLIR goes on with what a pattern has erased",
     ["callbacks.cpp", "  if (result && !matched.isLive())", "  if (!BROKEN && result && !matched.isLive())"]),
    (["PyPatternRewriter"], "a rewriter points to what has ended",
     ["callbacks.cpp", "  if (!blockRef.isLive())", "  if (!BROKEN && !blockRef.isLive())"],
     ["callbacks.cpp", "  if (!nextRef.isNull() && !nextRef.isLive())", "  if (!BROKEN && !nextRef.isNull() && !nextRef.isLive())"]),
    (["PyPatternRewriter"], "an inner driver's rewriter erases what the outer driver works on",
     ["callbacks.cpp", "    if (!scope->run || encloses(", "    if (BROKEN || !scope->run || encloses("]),
    (["PyPatternRewriter"], "a rewriter replaces by any number of values",
     [REWRITE, "    if (mlirOperationGetNumResults(raw) !=\n", "    if (!BROKEN && mlirOperationGetNumResults(raw) !=\n"]),
    (["PyPatternRewriter"], "an operation is replaced by its own values",
     [REWRITE, "      if (mlirValueIsAOpResult(values[i]) &&\n", "      if (!BROKEN && mlirValueIsAOpResult(values[i]) &&\n"]),
    (["PyPatternRewriter"], "an operation is replaced by itself",
     [REWRITE, "    if (lot_python::encloses(op.get(), replacement))", "    if (!BROKEN && lot_python::encloses(op.get(), replacement))"],
     [REWRITE, "      if (mlirValueIsAOpResult(values[i]) &&\n", "      if (!BROKEN && mlirValueIsAOpResult(values[i]) &&\n"]),
    (["PyPatternRewriter"], "the walk driver loses its place",
     ["callbacks.cpp", "  if (scope->run && scope->run->getDriver() == OpaqueRun::Driver::Walk &&", "  if (!BROKEN && scope->run && scope->run->getDriver() == OpaqueRun::Driver::Walk &&"]),
    (["PyPatternRewriter"], "a pattern detaches what the driver has in its list",
     ["callbacks.cpp", "  if (scope && scope->run)\n", "  if (!BROKEN && scope && scope->run)\n"]),
    (["PyRewritePatternSet"], "a pattern set is used after it was frozen",
     [REWRITE, "    if (!set.ptr)\n      lot_python::refuse(\"The pattern set", "    if (!BROKEN && !set.ptr)\n      lot_python::refuse(\"The pattern set"]),
    (["PyRewritePatternSet"], "patterns do not hold their context",
     [REWRITE, "        ctx(contextRef->get()), contextRef(std::move(contextRef)) {}",
      "        ctx(contextRef->get()),\n        contextRef(BROKEN ? PyMlirContextRef(contextRef.get(), nb::object()) : std::move(contextRef)) {}"]),
    (["PyFrozenRewritePatternSet"], "a frozen set is used after it was given away",
     [REWRITE, "    if (!set.ptr)\n      lot_python::raiseInvalidated(", "    if (!BROKEN && !set.ptr)\n      lot_python::raiseInvalidated("]),
    (["PyFrozenRewritePatternSet"], "a frozen set does not hold its context",
     [REWRITE, "    frozen.keepAlive = contextRef.getObject();"]),
    (["PyFrozenRewritePatternSet"], "a set is given away while a driver works with it",
     [REWRITE, "      if (nb::cast<PyFrozenRewritePatternSet &>(owner).running)", "      if (!BROKEN && nb::cast<PyFrozenRewritePatternSet &>(owner).running)"]),
    (["PyMlirPDLResultList"], "results end with Python's last reference",
     [REWRITE, "    pyResults.keep();"]),
    (["PyPDLPatternModule"], "somebody else's module is erased",
     ["ir.cpp", "  if (mlirBlockIsNull(mlirOperationGetBlock(operation)) && isAttached())\n", "  if (!BROKEN && mlirBlockIsNull(mlirOperationGetBlock(operation)) && isAttached())\n"]),
    (["PyModule"], "a module on its way out is handed out again",
     ["ir.cpp", "  bool isHeld = found != liveModules.end() && ", "  bool isHeld = found != liveModules.end() && BROKEN || found != liveModules.end() && "]),
    (["PyMlirContext"], "a setting is changed while passes run",
     ["callbacks.cpp", "  if (canSuspend())\n    _ZN4mlir11MLIRContext26exit", "  if (!BROKEN && canSuspend())\n    _ZN4mlir11MLIRContext26exit"],
     ["callbacks.cpp", "  if (canSuspend())\n    _ZN4mlir11MLIRContext27enter", "  if (!BROKEN && canSuspend())\n    _ZN4mlir11MLIRContext27enter"]),
    (["PyPDLPatternModule"], "a PDL module is frozen twice",
     [REWRITE, "            if (self.frozen)", "            if (!BROKEN && self.frozen)"]),
    (["PyMlirPDLResultList"], "results are not compared with what is expected",
     ["pdl.h", "    if (known != functions.end() && known->second.signatures", "    if (!BROKEN && known != functions.end() && known->second.signatures"]),
    (["PyMlirPDLResultList"], "a function that does the whole rewrite is taken for a part of one",
     ["pdl.h", "    return known == functions.end() || ", "    return BROKEN || known == functions.end() || "]),
    (["PyMlirPDLResultList"], "MLIR goes on when a rewrite function has failed",
     [REWRITE, "  if (function->isRewrite && mlirLogicalResultIsFailure(result))", "  if (!BROKEN && function->isRewrite && mlirLogicalResultIsFailure(result))"]),
    (["PyExecutionEngine"], "a released engine is used",
     [ENGINE, "    if (mlirExecutionEngineIsNull(executionEngine))\n      lot_python", "    if (!BROKEN && mlirExecutionEngineIsNull(executionEngine))\n      lot_python"]),

    # ---- The process.
    (["the same bindings twice"], "the bindings can be loaded again",
     ["tracking.cpp", "  if (std::exchange(begun, true) || isKnown)", "  if (!BROKEN && (std::exchange(begun, true) || isKnown))"]),
    (["C++ code of others that ends what it has a capsule of", "a library that cannot be covered"], "what is loaded late is not covered",
     ["tracking.cpp", "  if (isExact() && lot_mlir_refresh(", "  if (!BROKEN && isExact() && lot_mlir_refresh("]),
    (["a library that cannot be covered"], "refs from exact mode are believed after it",
     ["tracking.cpp", "    endUnplaced(), ++outsideCount;", "    BROKEN ? (void)0 : endUnplaced(), ++outsideCount;"]),
    (["sub-interpreters"], "sub-interpreters are not refused",
     ["module.h", "  if (PyInterpreterState_Get() != PyInterpreterState_Main()) {", "  if (!BROKEN && PyInterpreterState_Get() != PyInterpreterState_Main()) {"]),
]

# Rows and tests whose check is not in these sources.
ELSEWHERE = {
    "a second package": "the packages are built in such a way",
    "a second package or tracker": "the crate's load hooks see to that: src/mlir",
    "test_module_that_is_loaded_before_the_bindings": "the crate's load hooks see to that: src/mlir",
}

SWITCH = """#ifdef __cplusplus
#include <cstdlib>
#include <optional>
/// Whether a mutation is switched on: LOT_BROKEN is a list of numbers.
inline bool lotIsBroken(long number) {
  const char *list = std::getenv("LOT_BROKEN");
  for (char *end; list && *list; list = *end ? end + 1 : end)
    if (std::strtol(list, &end, 10) == number)
      return true;
  return false;
}
#define LOT_BROKEN(number) ([] { static const bool on = lotIsBroken(number); return on; }())
#endif
"""


# ---- COVERAGE.md.

class Row:
    def __init__(self, name, check, tests):
        self.name, self.check, self.text = name, check, tests
        self.tests = re.findall(r"`(\w*)::(\w+)`", tests)
        self.mutations = [number for number, mutation in enumerate(MUTATIONS) if name in mutation[0]]


def read_rows():
    """The rows of the tables, by the first class that they name. One that begins with a dash belongs to the row above:
    PyOperation/walk."""
    rows, outer, columns = [], "", None
    for line in (BINDINGS / "COVERAGE.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            columns = None
            continue
        if not columns:
            columns = cells
            check = columns.index("check" if "check" in columns else "how it is met")
            continue
        if set(line) <= set("|-"):
            continue
        if len(cells) != len(columns):
            raise SystemExit(f"COVERAGE.md: not {len(columns)} columns: {line}")
        name = cells[0].replace("`", "")
        if name.startswith("— "):
            name = outer + "/" + name[2:]
        else:
            outer = name = re.split(r", | \(", name)[0]
        rows.append(Row(name, cells[check], cells[columns.index("tests")]))
    return rows


def find_tests():
    """Name of a test function: the file it is in."""
    found = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M):
            if name in found:
                raise SystemExit(f"{name} is in two files, {found[name].name} and {path.name}")
            found[name] = path
    return found


def source_of(file):
    """Where the file that a mutation names is: (our or the patched one, its place in the mutated build)."""
    if "/" in file:
        return UPSTREAM / "patched" / file, BROKEN / "upstream" / file
    place = ("src/" if file.endswith(".cpp") else "include/lot_python/") + file
    return BINDINGS / place, SOURCE / place


def classes_of_upstream():
    """Every class and struct that is defined in upstream's headers and sources of the bindings."""
    mlir = UPSTREAM / "dev" / "mlir"
    files = [*mlir.glob("include/mlir/Bindings/Python/*.h"), *mlir.glob("src/python/MLIRPythonExtension.*/*")]
    pattern = r"^[ \t]*(?:template *<[^\n]*>\s*)?(?:class|struct)\s+(?:MLIR_PYTHON_API_EXPORTED\s+)*([\w:]+)[^;{]*\{"
    names = {name for path in files if path.suffix in (".h", ".cpp") for name in re.findall(pattern, path.read_text(), re.M)}
    if len(names) < 100:
        raise SystemExit(f"only {len(names)} classes found in {mlir}: make bindings first")
    return names


def list_troubles(rows, tests):
    troubles = []
    names = [row.name for row in rows]
    troubles += [f"two rows are called {name}" for name in set(names) if names.count(name) > 1]
    for row in rows:
        if row.tests and not row.check:
            troubles.append(f"{row.name}: tests, but no check")
        if row.check and not row.tests:
            troubles.append(f"{row.name}: a check, but no test")
        if row.check and not row.mutations and row.name not in ELSEWHERE:
            troubles.append(f"{row.name}: a check, but no mutation")
        if not row.tests and not re.match(r"none: \w", row.text):
            troubles.append(f"{row.name}: no test, and not said why (\"none: ...\")")
        for file, name in row.tests:
            if name not in tests or file not in ("", tests[name].stem):
                troubles.append(f"{row.name}: there is no test {file}::{name}")
    for mentioned, effect, *edits in MUTATIONS:
        troubles += [f"\"{effect}\": COVERAGE.md has no row {name}" for name in mentioned if name not in names]
        for file, old, *_ in edits:
            count = source_of(file)[0].read_text().count(old)
            if count != 1:
                troubles.append(f"\"{effect}\": its text stands {count} times in {file}: {old!r}")
    coverage = (BINDINGS / "COVERAGE.md").read_text()
    for name in sorted(classes_of_upstream()):
        if not re.search(rf"`(?:\w+::)?{re.escape(name)}`", coverage):
            troubles.append(f"COVERAGE.md does not name upstream's class {name}")
    return troubles


# ---- The mutated build.

def write_if_changed(path, text):
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def mutate(file):
    """The text of a file with all its mutations."""
    text = source_of(file)[0].read_text()
    edits = {}
    for number, (_, effect, *places) in enumerate(MUTATIONS):
        for where, old, *new in places:
            if where == file:
                new = new[0] if new else f"if (!BROKEN) {{\n{old}\n}}"
                # Where two mutations switch off the same thing, one place serves both.
                edits.setdefault((text.index(old), old, new), []).append(number)
    at, parts = 0, []
    for start, old, new in sorted(edits):
        if start < at:
            raise SystemExit(f"{file}: mutations overlap at {old!r}")
        parts += [text[at:start], new.replace("BROKEN", "(" + " || ".join(f"LOT_BROKEN({n})" for n in edits[start, old, new]) + ")")]
        at = start + len(old)
    return "".join(parts) + text[at:]


def build():
    files = {edit[0] for mutation in MUTATIONS for edit in mutation[2:]}
    # Our files and the patched ones; CMake is given an upstream that needs no patch.
    for origin, copy in ((BINDINGS, SOURCE), (UPSTREAM / "patched", BROKEN / "upstream")):
        for path in (p for p in origin.rglob("*") if p.is_file()):
            place = path.relative_to(origin)
            known = str(place) if origin != BINDINGS else path.name
            if place.parts[0] == "patches" or known in files:
                continue
            write_if_changed(copy / place, "" if place.name == "checksums.sha256" else path.read_text())
    for file in files:
        write_if_changed(source_of(file)[1], mutate(file))
    write_if_changed(BROKEN / "switch.h", SWITCH)
    # The packages are those of the bindings' own build.
    (BROKEN / "build").mkdir(exist_ok=True)
    for name, target in (("source/tests", "../../../tests"), *((f"build/{name}", f"../../upstream/{name}") for name in ("stock", "dev", "venv"))):
        if not (BROKEN / name).is_symlink():
            (BROKEN / name).symlink_to(target)
    shutil.copy(UPSTREAM / "fetched.stamp", BROKEN / "build")
    python = (UPSTREAM / "fetched.stamp").read_text().split()[0]  # with another one they would be fetched anew
    subprocess.run(["cmake", "-S", SOURCE, "-DLOT_BUILD_TESTS=ON", "-B", BROKEN / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={ROOT / 'build/prefix'}",
                    f"-DLOT_BINDINGS_WHEELS={ROOT / 'build/wheels'}", f"-DPython3_EXECUTABLE={python}", f"-DLOT_UPSTREAM_DIR={BROKEN / 'upstream'}",
                    f"-DLOT_BINDINGS_OUTPUT={BROKEN / 'bindings'}", f"-DCMAKE_CXX_FLAGS=-include {BROKEN / 'switch.h'}"],
                   check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", BROKEN / "build"], check=True, stdout=subprocess.DEVNULL)


# ---- The runs.

def run(path, name, mode, mutations):
    """passes, fails, crashes or hangs."""
    environment = {**os.environ, "LOT_MLIR_SOURCE": mode, "LOT_BROKEN": ",".join(map(str, mutations)),
                   # Freed memory does not look like what was in it.
                   "MALLOC_PERTURB_": "165", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0", "PYTHONMALLOC": "malloc"}
    command = [BROKEN / "bindings" / "tracked-python", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"{path}::{name}"]
    command = ["sh", "-c", 'ulimit -c 0; ulimit -v 12000000; exec "$@"', "sh", *command]
    status, output = limited.run(command, SECONDS, cwd=ROOT, env=environment)
    if status is None:
        return "hangs"
    if status < 0:
        return "crashes"
    if status > 1:
        raise SystemExit(f"{name} with {mutations} cannot be run:\n{output}")
    return "fails" if status else "passes"


MODES = ("exact", "structural")


class Report:
    """What made a test fail, and which mutations were noticed."""

    def __init__(self):
        self.noticed = set()

    def try_test(self, row, path, name):
        # What nobody has noticed yet comes first.
        order = sorted(row.mutations, key=lambda number: number in self.noticed)
        attempts = [(mode, [number]) for mode in MODES for number in order]
        if len(order) > 1:
            attempts += [(mode, order) for mode in MODES]
        for mode, mutations in attempts:
            verdict = run(path, name, mode, mutations)
            if verdict != "passes":
                if len(mutations) == 1:
                    self.noticed.update(mutations)
                what = MUTATIONS[mutations[0]][1] if len(mutations) == 1 else "all checks of the row together"
                return f"{verdict:8}", f"{what} ({mode})"
        return "", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="only compare what is written")
    parser.add_argument("--only", metavar="ROW", help="such as PyBlock, or PyOperation/walk")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="tests at a time")
    parser.add_argument("--junit", help="with --list: write a JUnit report")
    arguments = parser.parse_args()

    rows, tests = read_rows(), find_tests()
    troubles = list_troubles(rows, tests)
    if arguments.junit:
        suite = xml.Element("testsuite", name="coverage", tests="1")
        case = xml.SubElement(suite, "testcase", classname="coverage", name="COVERAGE.md")
        if troubles:
            xml.SubElement(case, "failure", message="\n".join(troubles))
        xml.ElementTree(suite).write(arguments.junit)
    for trouble in troubles:
        print(trouble)
    if troubles:
        return 1
    checked = [row for row in rows if row.mutations]
    print(f"{len(rows)} rows, {len(checked)} with a check, {len({t for row in rows for t in row.tests})} tests, {len(MUTATIONS)} mutations")
    if arguments.list:
        return 0
    if arguments.only:
        checked = [row for row in checked if row.name == arguments.only]
        if not checked:
            raise SystemExit(f"no row with a check is called {arguments.only}")

    build()
    failed = 0
    report = Report()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        named = sorted({name for row in checked for _, name in row.tests})
        healthy = [pool.submit(run, tests[name], name, mode, []) for name in named for mode in MODES]
        for future, (name, mode) in zip(healthy, [(name, mode) for name in named for mode in MODES]):
            if future.result() != "passes":
                print(f"{name} {future.result()} with nothing broken ({mode})")
                failed += 1
        if failed:
            return 1
        print(f"{len(named)} tests pass with nothing broken, in both modes", flush=True)

        pairs = [(row, name) for row in checked for _, name in row.tests if name not in ELSEWHERE]
        results = [pool.submit(report.try_test, row, tests[name], name) for row, name in pairs]
        for (row, name), future in zip(pairs, results):
            verdict, what = future.result()
            failed += not verdict
            print(f"{row.name:40} {name:60} {verdict or 'UNNOTICED'} {what}", flush=True)

        # Mutations that no test happened to meet so far.
        def remaining(number):
            for row in checked:
                for _, name in row.tests if number in row.mutations else ():
                    for mode in MODES:
                        if run(tests[name], name, mode, [number]) != "passes":
                            return True
            return False

        left = [n for n in range(len(MUTATIONS)) if n not in report.noticed and any(n in row.mutations for row in checked)]
        for number, noticed in zip(left, pool.map(remaining, left)):
            if not noticed:
                failed += 1
                print(f"{', '.join(MUTATIONS[number][0]):40} no test notices: {MUTATIONS[number][1]}", flush=True)
    print(f"{len(pairs)} tests of {len(checked)} rows, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

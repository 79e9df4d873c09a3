# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import gc

import pytest

from mlir import ir

if not hasattr(ir, "lot_status"):
    pytest.exit("These tests are for the tracked bindings: run them with build/bindings/tracked-python.", 4)


@pytest.fixture
def ctx():
    context = ir.Context()
    context.allow_unregistered_dialects = True
    yield context
    gc.collect()


def pytest_report_header(config):
    status = ir.lot_status()
    return f"ends are reported by: {status['source']}" + (f" ({status['reason']})" if status["reason"] else "")

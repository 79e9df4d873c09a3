# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs that may never end."""

import os
import signal
import subprocess


def run(command, seconds, **options):
    """The exit status and the output of a program; the status is None if it did not end in time. Then the programs that it
    has started are ended too, or they would go on for ever."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", start_new_session=True, **options) as process:  # fmt: skip
        try:
            output, _ = process.communicate(timeout=seconds)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, ""

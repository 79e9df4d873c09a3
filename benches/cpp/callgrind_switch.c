/* Lets a Python program say what callgrind is to count; see tools/bench/python_workload.py.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <valgrind/callgrind.h>

void counting_start(void) { CALLGRIND_START_INSTRUMENTATION; }

void counting_stop(const char *name) {
  CALLGRIND_STOP_INSTRUMENTATION;
  CALLGRIND_DUMP_STATS_AT(name);
}

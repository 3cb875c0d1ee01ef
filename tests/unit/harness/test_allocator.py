"""Memory that a run has freed stays with it."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

TIMES, MEGABYTES = 20, 9
PROGRAM = f"""
import resource, threading
import numpy as np
from harness.verbs.run import keep_freed_memory

def take_and_free():
    for _ in range({TIMES}):
        sample = [np.ones(3_000_000, np.uint8) for _ in range({MEGABYTES // 3})]
        while sample:
            sample.pop()

keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
thread = threading.Thread(target=take_and_free)
thread.start()
thread.join()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) * resource.getpagesize())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no mallopt")
def test_arrays_of_each_sample_take_pages_from_the_system_once() -> None:
    taken = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    assert int(taken) < 3 * MEGABYTES * 1_000_000, f"{TIMES} times {MEGABYTES} MB were used one after the other"

"""``probe``: this machine, the installed libraries, and the seeds that the installed LoadGen carries.

A launcher starts several probes at once. Given a folder for its result, each writes a file of its own there.
"""

from __future__ import annotations

import dataclasses
import platform
import time
from collections.abc import Callable
from typing import Any

from harness.catalog import LOADGEN
from harness.child.digests import hash_code
from harness.child.launched import rank
from harness.contract import BACKENDS, ProbeRequest, Result
from harness.machine.facts import collect_machine_notes, describe_machine, find_distribution_version, list_accelerators
from harness.machine.hardware import describe_hardware
from harness.machine.machine_idle import find_busy


def execute(request: ProbeRequest, _give_up: Callable[[BaseException], None]) -> Result:
    """values: machine, accelerators, backends and loadgen versions ("" when missing), and seeds when asked."""
    began = time.monotonic()
    values: dict[str, Any] = {
        "machine": describe_machine(),
        "accelerators": list_accelerators(),
        "backends": {
            name: find_distribution_version(*facts.distributions)
            for name, facts in BACKENDS.items()
            if not facts.elsewhere
        },
        "loadgen": find_distribution_version(*LOADGEN),
        "harness.code": hash_code(),
        "rank": rank(),
    }
    if request.hardware:
        values["hardware"] = {**describe_hardware(), "host": platform.node()}
    if request.quiet >= 0:
        busy = find_busy(request.gpus, request.quiet)
        values["busy"] = dataclasses.asdict(busy) if busy else None
    if request.seeds:
        # LoadGen is imported only when asked for: the rest of a probe works where it is missing.
        from harness.run.loadgen import probe_seeds

        values["seeds"] = probe_seeds()
    return Result(done=True, seconds=time.monotonic() - began, values=values, facts=collect_machine_notes())

"""``probe``: this machine, the installed libraries, and the seeds that the installed LoadGen carries."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from harness.contract import BACKENDS, ProbeRequest, Result
from harness.digests import code_digest
from harness.machine import accelerators, describe_machine, distribution_version, machine_notes


def execute(request: ProbeRequest, _give_up: Callable[[BaseException], None]) -> Result:
    """values: machine, accelerators, backends and loadgen versions ("" when missing), and seeds when asked."""
    began = time.monotonic()
    values: dict[str, Any] = {
        "machine": describe_machine(),
        "accelerators": accelerators(),
        "backends": {
            name: distribution_version(*facts.distributions) for name, facts in BACKENDS.items() if not facts.elsewhere
        },
        "loadgen": distribution_version("mlcommons-loadgen"),
        "harness.code": code_digest(),
    }
    if request.seeds:
        # LoadGen is imported only when asked for: the rest of a probe works where it is missing.
        from harness.loadgen import probe_seeds

        values["seeds"] = probe_seeds()
    return Result(done=True, seconds=time.monotonic() - began, values=values, facts=machine_notes())

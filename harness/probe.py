"""``probe``: this machine, the installed libraries, and the seeds that the installed LoadGen carries.

A launcher starts several probes at once. Given a folder for its result, each writes a file of its own there.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from typing import Any

from harness.contract import BACKENDS, ProbeRequest, Result
from harness.digests import code_digest
from harness.hardware import describe_hardware
from harness.machine import accelerators, computing_on, describe_machine, distribution_version, machine_notes

# Which process of all, and which of its node, as Slurm, Open MPI, MPICH and PMIx tell.
_RANKS = ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "RANK")
_LOCAL_RANKS = ("SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "LOCAL_RANK")


def rank() -> dict[str, int]:
    """``all``: the number of this process among those that a launcher started, ``local``: among those of its node."""
    return {"all": _first_number(_RANKS), "local": _first_number(_LOCAL_RANKS)}


def _first_number(names: tuple[str, ...]) -> int:
    return next((int(value) for name in names if (value := os.environ.get(name, "")).isdecimal()), 0)


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
    if request.hardware:
        values["hardware"] = {**describe_hardware(), "host": platform.node(), "rank": rank()}
    if request.computing:
        values["computing"] = computing_on(request.computing)
    if request.seeds:
        # LoadGen is imported only when asked for: the rest of a probe works where it is missing.
        from harness.loadgen import probe_seeds

        values["seeds"] = probe_seeds()
    return Result(done=True, seconds=time.monotonic() - began, values=values, facts=machine_notes())

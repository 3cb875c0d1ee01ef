"""A child behind a launcher: possibly on another node, in a container, or one of several.

Its parent process is not the pass, so the end of that parent means nothing. Only standard input passes through every
launcher: a first line with the run's secrets, then nothing until the end of the pass, which ends this process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

from harness.child.orphan import ORPHANED

LAUNCHED, PASS = "RECONCILE_LAUNCHED", "RECONCILE_PASS"  # the second variable identifies the pass of a process
_PATIENCE = 10.0  # seconds that a launcher has to forward a line, if it forwards standard input

# Variables of Slurm, Open MPI, MPICH and PMIx with a process's rank among all, and on its node.
_RANKS = ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "RANK")
_LOCAL_RANKS = ("SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "LOCAL_RANK")


def find_rank() -> dict[str, int]:
    """Return this process's number among ``all`` that the launcher started, and among the ``local`` ones of its
    node."""
    return {"all": _read_number(_RANKS), "local": _read_number(_LOCAL_RANKS)}


def _read_number(names: tuple[str, ...]) -> int:
    return next((int(value) for name in names if (value := os.environ.get(name, "")).isdecimal()), 0)


def is_launched() -> bool:
    return bool(os.environ.get(LAUNCHED))


def is_read_elsewhere(verb: str) -> bool:
    """Return True if this process has nothing to do, since only the first of a launcher's processes does the work. A
    probe runs in all of them."""
    return is_launched() and verb != "probe" and find_rank()["all"] != 0


def follow_input() -> None:
    """Take the secrets from the first line, and end when the input does. A launcher that forwards no input provides
    neither: then there are no secrets, and the launcher itself must end this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.pop("RECONCILE_PARENT", None)
    received = threading.Event()
    threading.Thread(target=_follow, args=(received,), daemon=True).start()
    received.wait(_PATIENCE)


def _follow(received: threading.Event) -> None:
    line = b""
    while not line.endswith(b"\n"):
        read = os.read(0, 1)
        if not read:
            received.set()
            return
        line += read
    os.environ.update(json.loads(line))
    received.set()
    while os.read(0, 4096):
        pass
    if callable(signal.getsignal(signal.SIGTERM)):
        os.kill(os.getpid(), signal.SIGTERM)  # an orderly end, within our own time limits
        return
    sys.stdout.flush()
    os._exit(ORPHANED)

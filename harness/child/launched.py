"""A child behind a launcher: on another node perhaps, in a container perhaps, and perhaps one of several.

Its parent is none of ours, so a kill of the parent says nothing. What reaches through every launcher is standard input:
a first line with the secrets of the run, then nothing until the pass is gone, which ends this process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

LAUNCHED, PASS = "RECONCILE_LAUNCHED", "RECONCILE_PASS"  # the second names the pass, for all that it starts anywhere
_PATIENCE = 10.0  # seconds in which a launcher that hands on standard input has handed on a line
ORPHANED = 70

# Variables with the rank of a process among all, and on its node, of Slurm, Open MPI, MPICH and PMIx.
_RANKS = ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "RANK")
_LOCAL_RANKS = ("SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "LOCAL_RANK")


def rank() -> dict[str, int]:
    """``all``: the number of this process among those that a launcher started, ``local``: among those of its node."""
    return {"all": _first_number(_RANKS), "local": _first_number(_LOCAL_RANKS)}


def _first_number(names: tuple[str, ...]) -> int:
    return next((int(value) for name in names if (value := os.environ.get(name, "")).isdecimal()), 0)


def is_launched() -> bool:
    return bool(os.environ.get(LAUNCHED))


def is_read_elsewhere(verb: str) -> bool:
    """True where a process that a launcher started after the first has nothing to do: every one reports what it sees,
    one alone runs."""
    return is_launched() and verb != "probe" and rank()["all"] != 0


def follow_input() -> None:
    """Take the secrets from the first line, and end when the input does. A launcher that hands on no input gives none
    of both: then there are no secrets, and the launcher itself must end this process."""
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
        os.kill(os.getpid(), signal.SIGTERM)  # a successor ends in order, and within bounds of its own
        return
    sys.stdout.flush()
    os._exit(ORPHANED)

"""Slices of GPUs (MIG) that a child computes on, with a process for each, and further ones for loads next to a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from harness.backends import LoadPlan, Session
from harness.catalog import write_slices
from harness.contract import BackgroundLoad, Benchmark
from harness.errors import HarnessError
from harness.machine.facts import MIG, VISIBLE, Slice, list_accelerators, list_slices, list_taken
from harness.mig.background import Background
from harness.mig.slice_session import SliceSession


def choose_slices(wanted: Sequence[str], here: Sequence[Slice], chosen: str | None) -> list[Slice]:
    """A slice for each profile that is ``wanted``, the first that fit; ``chosen``: the variable CUDA_VISIBLE_DEVICES,
    which may name slices or their GPUs. Raises HarnessError where there are not enough."""
    usable = [part for part in here if chosen is None or _is_among(part, chosen)]
    free = list(usable)
    found: list[Slice] = []
    for profile in wanted:
        fits = next((part for part in free if part["profile"] == profile), None)
        if fits is None:
            break
        free.remove(fits)
        found.append(fits)
    if len(found) == len(wanted):
        return found
    have = write_slices(str(part["profile"]) for part in usable)
    raise HarnessError(
        f"the run needs {write_slices(wanted)} of MIG, and {have or 'no slice'} can be used here",
        "missing",
        f"make them: `reconcile mig create`; check {VISIBLE} and hardware.mig of the system",
    )


def open_session(backend: str, benchmark: Benchmark, plan: LoadPlan, slices: Sequence[str]) -> Session:
    """The session of a run over several slices."""
    return SliceSession(backend, benchmark, plan, slices)


def prepare_background(loads: Sequence[BackgroundLoad], own: int, folder: Path) -> Background:
    """What computes next to a run on its ``own`` first slices, which alone are shown from here on."""
    return Background(loads, split_taken(own), folder)


def take_slices(wanted: Sequence[str], *, anywhere: bool = False) -> None:
    """Show CUDA, in this process and those that it starts, slices of these profiles and nothing else. ``anywhere``: on
    a machine without any device, what was asked for does without. Raises HarnessError where there are not enough."""
    accelerators = list_accelerators()
    if accelerators or not anywhere:
        found = choose_slices(wanted, list_slices(accelerators), os.environ.get(VISIBLE))
        os.environ[VISIBLE] = ",".join(str(part["uuid"]) for part in found)


def split_taken(count: int) -> list[str]:
    """The UUIDs of those behind the first ``count``, which alone are shown from here on."""
    taken = list_taken()
    if len(taken) > count:
        os.environ[VISIBLE] = ",".join(taken[:count])
    return taken[count:]


def _is_among(part: Slice, chosen: str) -> bool:
    for word in (word.strip() for word in chosen.split(",")):
        owner = word.removeprefix(MIG)  # drivers before 470 named a slice after its GPU: MIG-GPU-…/1/0
        if word.isdecimal():
            fits = int(word) == part["gpu"]
        elif word.startswith(MIG) and not owner.startswith("GPU-"):
            fits = str(part["uuid"]).startswith(word)
        elif word.startswith(MIG):
            fits = str(part["uuid"]) == word
        else:
            fits = bool(word) and str(part["gpu_uuid"]).startswith(word)
        if fits:
            return True
    return False

"""Parts of a GPU that act as GPUs of their own (MIG), called slices here: which of them a child computes on.

CUDA shows a process one slice at most, the first that CUDA_VISIBLE_DEVICES names by its UUID. What computes on several
is a process for each (``harness.machine.slice_session``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from harness.catalog import write_slices
from harness.contract import Fact
from harness.errors import HarnessError
from harness.machine.facts import list_accelerators

VISIBLE = "CUDA_VISIBLE_DEVICES"
MIG = "MIG-"  # how the UUID of a slice begins

Slice = Mapping[str, Any]
"""``uuid``, ``profile``, ``memory_bytes``, and of its GPU ``gpu`` (NVML's number), ``bus`` and ``gpu_uuid``."""


def list_slices(accelerators: Sequence[Mapping[str, Any]]) -> list[Slice]:
    """List the slices of all devices, in their order; ``accelerators``: see ``harness.machine.facts``."""
    return [
        {**part, "gpu": number, "bus": device.get("bus", ""), "gpu_uuid": device.get("uuid", "")}
        for number, device in enumerate(accelerators)
        for part in device.get("slices", ())
    ]


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


def take_slices(wanted: Sequence[str], *, anywhere: bool = False) -> None:
    """Show CUDA, in this process and those that it starts, slices of these profiles and nothing else. ``anywhere``: on
    a machine without any device, what was asked for does without. Raises HarnessError where there are not enough."""
    accelerators = list_accelerators()
    if accelerators or not anywhere:
        found = choose_slices(wanted, list_slices(accelerators), os.environ.get(VISIBLE))
        os.environ[VISIBLE] = ",".join(str(part["uuid"]) for part in found)


def list_taken() -> list[str]:
    """UUIDs of the slices that this process was given."""
    return [word for word in os.environ.get(VISIBLE, "").split(",") if word.startswith(MIG)]


def split_taken(count: int) -> list[str]:
    """The UUIDs of those behind the first ``count``, which alone are shown from here on."""
    taken = list_taken()
    if len(taken) > count:
        os.environ[VISIBLE] = ",".join(taken[:count])
    return taken[count:]


def slice_evidence() -> dict[str, Fact]:
    """On slices of which profiles this process computes; nothing where it computes on whole devices."""
    taken = list_taken()
    if not taken:
        return {}
    profiles = {part["uuid"]: str(part["profile"]) for part in list_slices(list_accelerators())}
    found = write_slices(profiles.get(uuid, uuid) for uuid in taken)
    return {"gpu.slices": Fact(value=found, role="evidence")}


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

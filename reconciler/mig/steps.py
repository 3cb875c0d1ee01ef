"""Which slices to make, and which of those that are here were made by us. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from msgspec import Struct

from harness.catalog import write_slices
from reconciler.errors import ReconcilerError
from reconciler.mig.journal import CreatedSlice, GpuHere, SliceHere, SliceJournal
from reconciler.resource.quantities import join_counted
from reconciler.resource.settings import Hardware

_ROOM = 7  # of GPUs whose driver does not say
_DIGITS = 3  # of a width
TOOL = "nvidia-smi"


class Cut(Struct, frozen=True):
    """A slice to be made."""

    gpu: GpuHere
    profile: str


def list_cuts(hardware: Hardware, gpus: Sequence[GpuHere]) -> tuple[Cut, ...]:
    """List the missing ones of the declared slices, the largest first, each on the first GPU with room for it. Raises
    ReconcilerError where there is none, or where the GPUs are others than those that are declared."""
    named = [gpu for gpu in gpus if hardware.accelerator.lower() in gpu.name.lower()][: hardware.count or 1]
    if len(named) < (hardware.count or 1):
        have = join_counted(gpu.name for gpu in gpus) or "no NVIDIA GPU that NVML reports"
        wanted = f"{hardware.count or 1} x {hardware.accelerator}"
        fix = "run it on that machine; NVML needs a driver, and `pip install nvidia-ml-py`"
        raise ReconcilerError(f"the system declares {wanted}; this machine has {have}", fix=fix)
    whole = next((gpu for gpu in named if gpu.mig is None), None)
    if whole is not None:
        raise ReconcilerError(
            f"GPU {whole.index} ({whole.name}) cannot be cut", fix="take hardware.mig out of the spec"
        )
    missing = Counter(hardware.slices) - Counter(part.profile for gpu in named for part in gpu.slices)
    room = {gpu: (gpu.most or _ROOM) - sum(_width(part.profile) for part in gpu.slices) for gpu in named}
    found = []
    for profile in sorted(missing.elements(), key=lambda profile: (-_width(profile), profile)):
        if "c." in profile:
            fix = "make it by hand with `nvidia-smi mig -cgi … -cci …`"
            raise ReconcilerError(f"{profile} is a part of a slice, which is not made here", fix=fix)
        gpu = next((gpu for gpu in named if room[gpu] >= _width(profile)), None)
        if gpu is None:
            here = write_slices(part.profile or "unnamed slice" for each in named for part in each.slices) or "nothing"
            problem = f"there is no room for {write_slices(missing.elements())}: {here} is there already"
            raise ReconcilerError(problem, fix="take away what is in the way, or declare less")
        room[gpu] -= _width(profile)
        found.append(Cut(gpu, profile))
    return tuple(found)


def list_joins(journal: SliceJournal, gpus: Sequence[GpuHere]) -> list[list[str]]:
    """The commands that take away what the journal knows of, and switch off the modes that nothing needs then."""
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    commands, left = [], {gpu.uuid: len(gpu.slices) for gpu in gpus}
    for entry in journal.made:
        gpu = by_uuid.get(entry.gpu)
        if gpu is None:
            continue
        made = find_made(entry, gpu, [each.uuid for each in journal.made if each != entry])
        if made is not None:
            commands += write_joins(gpu, made.instance)
            left[gpu.uuid] -= 1
        elif entry.ending:  # killed between the two: what computes is gone, the part of the GPU may be
            commands.append(write_joins(gpu, entry.instance)[1])
    switched = [by_uuid[uuid] for uuid in journal.enabled if uuid in by_uuid and not left[uuid]]
    return [*commands, *(write_switch(gpu, on=False) for gpu in switched if gpu.mig)]


def _width(profile: str) -> int:
    """How much of a GPU it computes with: a profile begins with that. 1, the least, of one that the driver does not
    name: its tool refuses what has no room."""
    width = profile.rpartition("c.")[2].partition("g.")[0]
    return int(width) if width.isdecimal() and len(width) <= _DIGITS else 1


def write_switch(gpu: GpuHere, *, on: bool) -> list[str]:
    return [TOOL, "-i", str(gpu.index), "-mig", "1" if on else "0"]


def write_cut(cut: Cut) -> list[str]:
    """The part of the GPU, and the one computing part of it."""
    return [TOOL, "mig", "-i", str(cut.gpu.index), "-cgi", cut.profile, "-C"]


def write_joins(gpu: GpuHere, instance: int) -> list[list[str]]:
    """The other way round."""
    of = [TOOL, "mig", "-i", str(gpu.index), "-gi", str(instance)]
    return [[*of, "-dci"], [*of, "-dgi"]]


def find_made(entry: CreatedSlice, gpu: GpuHere, others: Collection[str]) -> SliceHere | None:
    """The slice of an entry, if it is there. ``others``: UUIDs of other entries. Raises ReconcilerError where several
    could be it: somebody else made slices while a command was killed."""
    if entry.uuid:
        return next((part for part in gpu.slices if part.uuid == entry.uuid), None)
    apart = {*entry.before, *others}
    found = [part for part in gpu.slices if part.profile == entry.profile and part.uuid not in apart]
    if len(found) > 1:
        names = ", ".join(part.uuid for part in found)
        fix = "find out whose they are; take ours away by hand, and remove the entry from the journal"
        raise ReconcilerError(f"any of {names} could be the {entry.profile} that a killed command made", fix=fix)
    return found[0] if found else None

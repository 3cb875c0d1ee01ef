"""Journal of the slices made on this machine, by whichever repository: a file that a killed command leaves whole.

An entry is written before the slice is made, with those that are there already, and again once it is. So what a killed
command made is found: the one slice of that profile on that GPU which was not there before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.errors import ReconcilerError
from reconciler.resource.codec import CodecError, decode_json, encode_json
from reconciler.storage.files import replace as replace_file
from reconciler.storage.leftovers import sweep_siblings
from reconciler.storage.machine_locks import lock_folder

_FILE = "mig.json"


class CreatedSlice(Struct, frozen=True):
    """``gpu``: UUID of its GPU; ``before``: the slices that were there; ``uuid``: "" until it is known to be made;
    ``instance``: NVIDIA's number of it on its GPU, -1 until then. ``ending``: it is being taken away."""

    gpu: str
    profile: str
    before: tuple[str, ...] = ()
    uuid: str = ""
    instance: int = -1
    ending: bool = False


class SliceJournal(Struct, frozen=True):
    """``enabled``: UUIDs of the GPUs whose MIG mode was switched on."""

    made: tuple[CreatedSlice, ...] = ()
    enabled: tuple[str, ...] = ()

    def put(self, entry: CreatedSlice, instead: CreatedSlice | None = None) -> SliceJournal:
        kept = tuple(each for each in self.made if each != instead)
        return replace(self, made=(*kept, entry))

    def drop(self, entry: CreatedSlice) -> SliceJournal:
        return replace(self, made=tuple(each for each in self.made if each != entry))


class SliceHere(Struct, frozen=True):
    """A slice as the driver reports it."""

    uuid: str
    profile: str
    instance: int


class GpuHere(Struct, frozen=True):
    """``index``: NVIDIA's number. ``mig``: whether it may be cut now, None for one that cannot. ``most``: slices that
    it has room for, 0 where the driver does not say."""

    index: int
    uuid: str
    name: str
    mig: bool | None
    most: int = 0
    slices: tuple[SliceHere, ...] = field(default=())


def describe_gpus(accelerators: Sequence[Mapping[str, object]]) -> tuple[GpuHere, ...]:
    """Describe the GPUs for a probe."""
    return tuple(_describe(index, gpu) for index, gpu in enumerate(accelerators))


def _describe(index: int, gpu: Mapping[str, object]) -> GpuHere:
    parts = gpu.get("slices") or ()
    assert isinstance(parts, list | tuple)
    mig = gpu.get("mig")
    return GpuHere(
        index=index,
        uuid=str(gpu.get("uuid", "")),
        name=str(gpu.get("name", "")),
        mig=mig if isinstance(mig, bool) else None,
        most=int(str(gpu.get("most_slices", 0))),
        slices=tuple(SliceHere(str(p["uuid"]), str(p["profile"]), int(p.get("instance", -1))) for p in parts),
    )


def find_slice_journal() -> Path:
    return lock_folder() / _FILE


def read_slice_journal(path: Path) -> SliceJournal:
    """Raises ReconcilerError for one that cannot be read: its slices would never be taken away."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return SliceJournal()
    try:
        found: SliceJournal = decode_json(data, SliceJournal)
        return found
    except CodecError as error:
        fix = "compare `nvidia-smi mig -lgi` with what you know, take away by hand what is yours, then remove the file"
        raise ReconcilerError(f"{path} cannot be read: {error}", fix=fix) from error


def write_slice_journal(path: Path, journal: SliceJournal) -> None:
    """Remains of an earlier one, from a killed command, are removed."""
    with contextlib.suppress(OSError):  # of another user, say
        sweep_siblings(path)
    replace_file(path, encode_json(journal))

"""Create and destroy slices step by step, with a journal entry before and after each step."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, convert, field
from msgspec.structs import replace

from harness.catalog import write_slices
from harness.contract import ProbeRequest
from reconciler.errors import ReconcilerError
from reconciler.resource.codec import CodecError, decode_json, encode_json
from reconciler.resource.quantities import join_counted
from reconciler.resource.settings import Hardware
from reconciler.storage.files import replace as replace_file
from reconciler.storage.launch.launcher import Launcher
from reconciler.storage.launch.nodes import probe_nodes
from reconciler.storage.leftovers import open_temporary, sweep_siblings
from reconciler.storage.machine_locks import find_lock_folder
from reconciler.storage.process import ask

_LIMIT = 120.0  # seconds that a step may take
_RESET = "nvidia-smi --gpu-reset -i {} while it is idle, or reboot; then run this again"
_COMPARE = "compare `nvidia-smi mig -lgi` with NVML's list (`reconcile mig`); reload the driver if needed"
_MOST_QUOTED = 300  # characters of the tool's output


class SliceCutter(Struct):
    """``look`` queries the driver; ``run`` runs a command of NVIDIA's tool, and raises ReconcilerError with its output.
    ``report`` is called with each command before it runs."""

    journal: Path
    look: Callable[[], tuple[GpuHere, ...]]
    run: Callable[[Sequence[str]], None]
    report: Callable[[str], None]

    def create(self, hardware: Hardware) -> int:
        """Create the declared slices that are missing, and return how many."""
        cuts = list_cuts(hardware, self.look())
        for gpu in dict.fromkeys(cut.gpu for cut in cuts):
            if not gpu.mig:
                self._switch_on(gpu)
        for cut in cuts:
            self._cut(cut)
        return len(cuts)

    def destroy(self) -> int:
        """Destroy all existing slices in the journal, and return how many."""
        count = 0
        for entry in self._read().made:
            count += self._join(entry)
        for uuid in self._read().enabled:
            gpu = self._find_gpu(uuid)
            if gpu is not None and gpu.mig and not gpu.slices:
                self._run_command(write_switch(gpu, on=False))
            if gpu is None or not gpu.slices:
                found = self._read()
                self._write(replace(found, enabled=tuple(each for each in found.enabled if each != uuid)))
        return count

    def _switch_on(self, gpu: GpuHere) -> None:
        found = self._read()
        self._write(replace(found, enabled=tuple(dict.fromkeys((*found.enabled, gpu.uuid)))))
        self._run_command(write_switch(gpu, on=True))
        now = self._find_gpu(gpu.uuid)
        if now is None or not now.mig:
            problem = f"MIG of GPU {gpu.index} was requested, but is not active yet"
            raise ReconcilerError(problem, fix=_RESET.format(gpu.index))

    def _cut(self, cut: Cut) -> None:
        gpu = self._find_gpu(cut.gpu.uuid) or cut.gpu
        intent = CreatedSlice(gpu.uuid, cut.profile, tuple(part.uuid for part in gpu.slices))
        self._write(self._read().put(intent))
        made = False
        try:
            self._run_command(write_cut(cut))
        finally:
            made = self._settle(intent)
        if not made:  # the tool's exit status proves nothing
            problem = f"`{shlex.join(write_cut(cut))}` succeeded, but GPU {gpu.index} has no new {cut.profile}"
            raise ReconcilerError(problem, fix=_COMPARE)

    def _settle(self, intent: CreatedSlice) -> bool:
        """Complete the journal entry of an intent, or drop it if no slice was made. Return whether one was."""
        found = self._read()
        gpu = self._find_gpu(intent.gpu)
        others = [each.uuid for each in found.made if each != intent]
        made = find_made(intent, gpu, others) if gpu is not None else None
        if made is None:
            self._write(found.drop(intent))
        else:
            settled = replace(intent, before=(), uuid=made.uuid, instance=made.instance)
            self._write(found.put(settled, instead=intent))
        return made is not None

    def _join(self, entry: CreatedSlice) -> int:
        """Destroy one slice; return 1 if it still existed, else 0."""
        found = self._read()
        gpu = self._find_gpu(entry.gpu)
        made = find_made(entry, gpu, [each.uuid for each in found.made if each != entry]) if gpu is not None else None
        if gpu is None or (made is None and not entry.ending):
            self._write(found.drop(entry))  # gone after a restart, or removed by another user
            return 0
        instance = made.instance if made is not None else entry.instance
        ending = replace(entry, ending=True, instance=instance, uuid=made.uuid if made is not None else entry.uuid)
        self._write(found.put(ending, instead=entry))
        commands = write_joins(gpu, instance)
        if made is None:  # killed between the two: the compute instance is gone, the GPU instance may exist
            try:
                self._run_command(commands[1])
            except ReconcilerError as error:
                self.report(f"  {error.message}")
        else:
            for command in commands:
                self._run_command(command)
            now = self._find_gpu(entry.gpu)
            if now is not None and any(part.uuid == made.uuid for part in now.slices):
                raise ReconcilerError(f"{TOOL} removed {made.uuid}, but it still exists", fix=_COMPARE)
        self._write(self._read().drop(ending))
        return 1

    def _run_command(self, command: Sequence[str]) -> None:
        self.report(shlex.join(command))
        self.run(command)

    def _find_gpu(self, uuid: str) -> GpuHere | None:
        return next((gpu for gpu in self.look() if gpu.uuid == uuid), None)

    def _read(self) -> SliceJournal:
        return read_slice_journal(self.journal)

    def _write(self, journal: SliceJournal) -> None:
        write_slice_journal(self.journal, journal)


def look_here() -> tuple[GpuHere, ...]:
    """Query the GPUs of this machine through NVML."""
    with open_temporary("probe") as shared:
        (node,) = probe_nodes(ProbeRequest(), Launcher(), shared)
    return describe_gpus(node["accelerators"])


def run_tool(command: Sequence[str]) -> None:
    """Run it with the required privileges: as root, else through sudo, which must not ask for a password."""
    words = [*list_privileges(), *command]
    ended = ask(words, _LIMIT)
    if ended.status:
        said = (ended.error or ended.out.decode(errors="replace")).strip().splitlines()
        last = said[-1][:_MOST_QUOTED] if said else "no output"
        problem = f"`{shlex.join(words)}` ended with {ended.status}: {last}"
        fix = "see its output; slices in use can neither be created nor removed"
        raise ReconcilerError(problem, fix=fix)


def list_privileges() -> list[str]:
    return [] if os.geteuid() == 0 else ["sudo", "-n"]


# Decide which slices to make, and which of the existing ones were made here. Pure.

_ROOM = 7  # assumed for GPUs whose driver does not report it
_DIGITS = 3  # digits in a width
TOOL = "nvidia-smi"


class Cut(Struct, frozen=True):
    """A slice to create."""

    gpu: GpuHere
    profile: str


def list_cuts(hardware: Hardware, gpus: Sequence[GpuHere]) -> tuple[Cut, ...]:
    """List the declared slices that are missing, largest first, each on the first GPU with room for it. Raises
    ReconcilerError if no GPU has room, or if the GPUs differ from the declared ones."""
    named = [gpu for gpu in gpus if hardware.accelerator.lower() in gpu.name.lower()][: hardware.count or 1]
    if len(named) < (hardware.count or 1):
        have = join_counted(gpu.name for gpu in gpus) or "no NVIDIA GPU reported by NVML"
        wanted = f"{hardware.count or 1} x {hardware.accelerator}"
        fix = "run it on that machine; NVML needs a driver, and `pip install nvidia-ml-py`"
        raise ReconcilerError(f"the system declares {wanted}; this machine has {have}", fix=fix)
    whole = next((gpu for gpu in named if gpu.mig is None), None)
    if whole is not None:
        raise ReconcilerError(
            f"GPU {whole.index} ({whole.name}) does not support MIG", fix="remove hardware.mig from the spec"
        )
    missing = Counter(hardware.slices) - Counter(part.profile for gpu in named for part in gpu.slices)
    room = {gpu: (gpu.most or _ROOM) - sum(_read_width(part.profile) for part in gpu.slices) for gpu in named}
    found = []
    for profile in sorted(missing.elements(), key=lambda profile: (-_read_width(profile), profile)):
        if "c." in profile:
            fix = "create it by hand with `nvidia-smi mig -cgi … -cci …`"
            raise ReconcilerError(f"{profile} is a part of a slice, which is not supported", fix=fix)
        gpu = next((gpu for gpu in named if room[gpu] >= _read_width(profile)), None)
        if gpu is None:
            here = write_slices(part.profile or "unnamed slice" for each in named for part in each.slices) or "nothing"
            problem = f"no room for {write_slices(missing.elements())}: {here} already exists"
            raise ReconcilerError(problem, fix="remove other slices, or declare fewer")
        room[gpu] -= _read_width(profile)
        found.append(Cut(gpu, profile))
    return tuple(found)


def list_joins(journal: SliceJournal, gpus: Sequence[GpuHere]) -> list[list[str]]:
    """Return the commands that remove the slices of the journal, and then disable MIG modes that are no longer
    needed."""
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
        elif entry.ending:  # killed between the two: the compute instance is gone, the GPU instance may exist
            commands.append(write_joins(gpu, entry.instance)[1])
    switched = [by_uuid[uuid] for uuid in journal.enabled if uuid in by_uuid and not left[uuid]]
    return [*commands, *(write_switch(gpu, on=False) for gpu in switched if gpu.mig)]


def _read_width(profile: str) -> int:
    """Return the compute width with which the profile begins. 1, the minimum, if the driver does not name the profile:
    the tool rejects slices without room."""
    width = profile.rpartition("c.")[2].partition("g.")[0]
    return int(width) if width.isdecimal() and len(width) <= _DIGITS else 1


def write_switch(gpu: GpuHere, *, on: bool) -> list[str]:
    return [TOOL, "-i", str(gpu.index), "-mig", "1" if on else "0"]


def write_cut(cut: Cut) -> list[str]:
    """Create the GPU instance and its one compute instance."""
    return [TOOL, "mig", "-i", str(cut.gpu.index), "-cgi", cut.profile, "-C"]


def write_joins(gpu: GpuHere, instance: int) -> list[list[str]]:
    """Destroy the compute instance, then the GPU instance."""
    of = [TOOL, "mig", "-i", str(gpu.index), "-gi", str(instance)]
    return [[*of, "-dci"], [*of, "-dgi"]]


def find_made(entry: CreatedSlice, gpu: GpuHere, others: Collection[str]) -> SliceHere | None:
    """Return the slice of an entry, if it exists. ``others``: UUIDs of other entries. Raises ReconcilerError if several
    slices match: another user made some while a command was killed."""
    if entry.uuid:
        return next((part for part in gpu.slices if part.uuid == entry.uuid), None)
    apart = {*entry.before, *others}
    found = [part for part in gpu.slices if part.profile == entry.profile and part.uuid not in apart]
    if len(found) > 1:
        names = ", ".join(part.uuid for part in found)
        fix = "find their owner; remove ours by hand, and delete the journal entry"
        raise ReconcilerError(f"{names}: one may be the {entry.profile} created by a killed command", fix=fix)
    return found[0] if found else None


# Journal of the slices made on this machine by any repository; a killed command leaves the file intact.
#
# An entry is written before its slice is made, with the existing slices, and again afterwards. If the command is
# killed, its slice is the one of that profile on that GPU that did not exist before.

_FILE = "mig.json"


class CreatedSlice(Struct, frozen=True):
    """``gpu``: UUID of its GPU; ``before``: the slices that existed before; ``uuid``: "" until it is known to exist;
    ``instance``: NVIDIA's number for it on its GPU, -1 until then. ``ending``: its removal has begun."""

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
    instance: int = -1


class GpuHere(Struct, frozen=True):
    """``index``: NVIDIA's number. ``mig``: whether MIG is enabled, None if the GPU does not support it. ``most``: the
    maximum number of slices, 0 if the driver does not report it."""

    index: int
    uuid: str = ""
    name: str = ""
    mig: bool | None = None
    most: int = field(default=0, name="most_slices")
    slices: tuple[SliceHere, ...] = field(default=())


def describe_gpus(accelerators: Sequence[Mapping[str, object]]) -> tuple[GpuHere, ...]:
    """Describe the GPUs of a probe."""
    return tuple(convert({**gpu, "index": index}, GpuHere) for index, gpu in enumerate(accelerators))


def find_slice_journal() -> Path:
    return find_lock_folder() / _FILE


def read_slice_journal(path: Path) -> SliceJournal:
    """Read the journal. Raises ReconcilerError if that fails: its slices would never be removed."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return SliceJournal()
    try:
        found: SliceJournal = decode_json(data, SliceJournal)
        return found
    except CodecError as error:
        fix = "compare `nvidia-smi mig -lgi` with your own, remove yours by hand, then remove the file"
        raise ReconcilerError(f"{path} cannot be read: {error}", fix=fix) from error


def write_slice_journal(path: Path, journal: SliceJournal) -> None:
    """Write the journal, and remove temporary files of killed commands."""
    with contextlib.suppress(OSError):  # such as a file of another user
        sweep_siblings(path)
    replace_file(path, encode_json(journal))

"""Makes slices and takes them away, a step at a time, with what was made written down around each step."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from harness.contract import ProbeRequest
from reconciler.errors import ReconcilerError
from reconciler.mig.journal import (
    CreatedSlice,
    GpuHere,
    SliceJournal,
    describe_gpus,
    read_slice_journal,
    write_slice_journal,
)
from reconciler.mig.steps import TOOL, Cut, find_made, list_cuts, write_cut, write_joins, write_switch
from reconciler.resource.settings import Hardware
from reconciler.storage.launch.launcher import Launcher
from reconciler.storage.launch.nodes import probe_nodes
from reconciler.storage.leftovers import open_temporary
from reconciler.storage.process import ask

_LIMIT = 120.0  # seconds that a step may take
_RESET = "nvidia-smi --gpu-reset -i {} (nothing may use it), or reboot the machine; then run this again"
_COMPARE = "compare `nvidia-smi mig -lgi` with NVML's list (`reconcile mig`); the driver may have to be loaded again"
_MOST_QUOTED = 300  # characters of what the tool says


class SliceCutter(Struct):
    """``look`` asks the driver; ``run`` carries out a command of NVIDIA's tool, and raises ReconcilerError with what it
    said. ``tell``: of each command before it is carried out."""

    journal: Path
    look: Callable[[], tuple[GpuHere, ...]]
    run: Callable[[Sequence[str]], None]
    report: Callable[[str], None]

    def create(self, hardware: Hardware) -> int:
        """How many slices were made: what is missing of those that are declared."""
        cuts = list_cuts(hardware, self.look())
        for gpu in dict.fromkeys(cut.gpu for cut in cuts):
            if not gpu.mig:
                self._switch_on(gpu)
        for cut in cuts:
            self._cut(cut)
        return len(cuts)

    def destroy(self) -> int:
        """How many were taken away: all that the journal knows of and that are still there."""
        count = 0
        for entry in self._read().made:
            count += self._join(entry)
        for uuid in self._read().enabled:
            gpu = _find(self.look(), uuid)
            if gpu is not None and gpu.mig and not gpu.slices:
                self._do(write_switch(gpu, on=False))
            if gpu is None or not gpu.slices:
                found = self._read()
                self._write(replace(found, enabled=tuple(each for each in found.enabled if each != uuid)))
        return count

    def _switch_on(self, gpu: GpuHere) -> None:
        found = self._read()
        self._write(replace(found, enabled=tuple(dict.fromkeys((*found.enabled, gpu.uuid)))))
        self._do(write_switch(gpu, on=True))
        now = _find(self.look(), gpu.uuid)
        if now is None or not now.mig:
            problem = f"MIG of GPU {gpu.index} was asked for, and is not there yet"
            raise ReconcilerError(problem, fix=_RESET.format(gpu.index))

    def _cut(self, cut: Cut) -> None:
        gpu = _find(self.look(), cut.gpu.uuid) or cut.gpu
        intent = CreatedSlice(gpu.uuid, cut.profile, tuple(part.uuid for part in gpu.slices))
        self._write(self._read().put(intent))
        made = False
        try:
            self._do(write_cut(cut))
        finally:
            made = self._settle(intent)
        if not made:  # the tool's word is not enough
            problem = f"`{shlex.join(write_cut(cut))}` ended well, but GPU {gpu.index} has no new {cut.profile}"
            raise ReconcilerError(problem, fix=_COMPARE)

    def _settle(self, intent: CreatedSlice) -> bool:
        """Settle an intent; one that came to nothing is dropped. Gives whether it was made."""
        found = self._read()
        gpu = _find(self.look(), intent.gpu)
        others = [each.uuid for each in found.made if each != intent]
        made = find_made(intent, gpu, others) if gpu is not None else None
        if made is None:
            self._write(found.drop(intent))
        else:
            settled = replace(intent, before=(), uuid=made.uuid, instance=made.instance)
            self._write(found.put(settled, instead=intent))
        return made is not None

    def _join(self, entry: CreatedSlice) -> int:
        """1 where it was still there."""
        found = self._read()
        gpu = _find(self.look(), entry.gpu)
        made = find_made(entry, gpu, [each.uuid for each in found.made if each != entry]) if gpu is not None else None
        if gpu is None or (made is None and not entry.ending):
            self._write(found.drop(entry))  # started anew, or taken away by somebody else
            return 0
        instance = made.instance if made is not None else entry.instance
        ending = replace(entry, ending=True, instance=instance, uuid=made.uuid if made is not None else entry.uuid)
        self._write(found.put(ending, instead=entry))
        commands = write_joins(gpu, instance)
        if made is None:  # killed between the two: what computes is gone, the part of the GPU may be
            self._try(commands[1])
        else:
            for command in commands:
                self._do(command)
            now = _find(self.look(), entry.gpu)
            if now is not None and any(part.uuid == made.uuid for part in now.slices):
                raise ReconcilerError(f"{TOOL} took {made.uuid} away, and it is still there", fix=_COMPARE)
        self._write(self._read().drop(ending))
        return 1

    def _do(self, command: Sequence[str]) -> None:
        self.report(shlex.join(command))
        self.run(command)

    def _try(self, command: Sequence[str]) -> None:
        try:
            self._do(command)
        except ReconcilerError as error:
            self.report(f"  {error.message}")

    def _read(self) -> SliceJournal:
        return read_slice_journal(self.journal)

    def _write(self, journal: SliceJournal) -> None:
        write_slice_journal(self.journal, journal)


def _find(gpus: Sequence[GpuHere], uuid: str) -> GpuHere | None:
    return next((gpu for gpu in gpus if gpu.uuid == uuid), None)


def look_here() -> tuple[GpuHere, ...]:
    """Look at the GPUs of this machine, through NVML."""
    with open_temporary("probe") as shared:
        (node,) = probe_nodes(ProbeRequest(), Launcher(), shared)
    return describe_gpus(node["accelerators"])


def run_tool(command: Sequence[str]) -> None:
    """With the privileges that it needs: as root, else through sudo, which must not ask for a password."""
    words = [*list_privileges(), *command]
    ended = ask(words, _LIMIT)
    if ended.status:
        said = (ended.error or ended.out.decode(errors="replace")).strip().splitlines()
        last = said[-1][:_MOST_QUOTED] if said else "nothing was said"
        problem = f"`{shlex.join(words)}` ended with {ended.status}: {last}"
        raise ReconcilerError(
            problem, fix="see what it says; a slice that is in use can neither be made nor taken away"
        )


def list_privileges() -> list[str]:
    return [] if os.geteuid() == 0 else ["sudo", "-n"]

"""Whether anybody else uses the machine while a run is to be timed: the GPUs that it takes, and the processors."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from harness.contract import ProbeRequest, Result
from reconciler.process import Child, child_environment, harness_command

SHARE = 0.5  # of all cores; other processes may use so much
GLANCE, LOOK = 0.1, 2.0  # seconds; a glance that sees a quiet machine is enough
_PROBE_LIMIT = 30.0
_NVIDIA = Path("/dev/nvidiactl")
_LONGEST = 80  # characters of a command


@dataclass(frozen=True, slots=True)
class Busy:
    """Who uses the machine. ``pid`` 0: a process that cannot be seen from here, as that of another container."""

    what: str
    pid: int = 0
    user: str = ""
    command: str = ""

    def __str__(self) -> str:
        if not self.pid:
            return f"{self.what} a process that cannot be seen from here (of another container or virtual machine)"
        who = ", ".join(part for part in (self.user, self.command) if part)
        return f"{self.what} process {self.pid}{f' ({who})' if who else ''}"


def find_busy(settings: Mapping[str, Any], *, look: float = LOOK) -> Busy | None:
    """What speaks against timing a run with these settings now; None when the machine is quiet.

    ``look``: seconds for which the processors must be loaded; a tenth of a second at least.
    """
    return _on_gpus(gpus_of(settings)) or _on_processors(look)


def gpus_of(settings: Mapping[str, Any]) -> int:
    """How many GPUs a run takes, from the first on."""
    return int(settings.get("run.options.devices") or settings.get("hardware.count") or 0)


def _on_gpus(count: int) -> Busy | None:
    if not count or not _NVIDIA.exists():
        return None
    return foreign(_computing(count), _ours())


def foreign(computing: Iterable[tuple[int, int]], ours: frozenset[int]) -> Busy | None:
    """The first process on a GPU that is none of ours."""
    for device, pid in computing:
        if pid not in ours:
            return _named(f"GPU {device} is used by", pid)
    return None


def _computing(count: int) -> list[tuple[int, int]]:
    """(device, process) as a probe child reads it; nothing when it cannot."""
    with tempfile.TemporaryDirectory(prefix="reconcile-quiet-") as place:
        folder = Path(place)
        request, result = folder / "request.json", folder / "result.json"
        ProbeRequest(computing=count).write(request)
        command = harness_command("probe", request, result)
        with Child(command, folder=folder, log=folder / "log", environment=child_environment()) as child:
            child.wait(_PROBE_LIMIT)
        try:
            return [(int(device), int(pid)) for device, pid in Result.read(result).values["computing"]]
        except (OSError, ValueError, KeyError, TypeError):
            return []


def _ours() -> frozenset[int]:
    """This process, what it started (a service, say) and those that wait for it."""
    me = psutil.Process()
    related = [me, *me.children(recursive=True), *me.parents()]
    return frozenset(process.pid for process in related)


def _on_processors(look: float) -> Busy | None:
    if _share(_total(), GLANCE) <= SHARE:
        return None
    look = max(look, GLANCE)
    before, began = _times(), _total()
    share = _share(began, look)
    if share <= SHARE:
        return None
    return loaded(before, _times(), _ours(), share, look * _cores())


def loaded(
    before: Mapping[int, float], after: Mapping[int, float], ours: frozenset[int], share: float, offered: float
) -> Busy | None:
    """Who loads the processors: ``share`` of the time ``offered`` (core seconds) was used, some of it by us."""
    used = {pid: seconds - before.get(pid, 0.0) for pid, seconds in after.items()}
    others = share - sum(seconds for pid, seconds in used.items() if pid in ours) / offered
    if others <= SHARE:
        return None
    foreign_use = {pid: seconds for pid, seconds in used.items() if pid not in ours and seconds > 0}
    what = f"others use {min(others, 1.0):.0%} of all cores, most of it"
    top = max(foreign_use, key=foreign_use.__getitem__, default=0)
    return _named(what, top) if foreign_use.get(top, 0.0) > 0.05 * offered / _cores() else Busy(what)


def _share(began: float, seconds: float) -> float:
    time.sleep(seconds)
    return max(0.0, (_total() - began) / (seconds * _cores()))


def _total() -> float:
    """Core seconds that the machine has computed since it started."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0) + getattr(times, "steal", 0.0)
    return float(sum(times) - idle - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0))


def _times() -> dict[int, float]:
    """Process → core seconds that it has used."""
    found = {}
    for process in psutil.process_iter(["pid", "cpu_times"]):
        times = process.info["cpu_times"]
        if times is not None:
            found[process.pid] = times.user + times.system
    return found


def _cores() -> int:
    return psutil.cpu_count() or 1


def _named(what: str, pid: int) -> Busy:
    try:
        process = psutil.Process(pid)
        command = " ".join(process.cmdline()) or process.name()
        return Busy(what, pid, process.username(), command[:_LONGEST])
    except psutil.Error:
        return Busy(what, pid)

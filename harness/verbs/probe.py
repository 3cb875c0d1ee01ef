"""``probe``: describe this machine, the installed libraries, and the seeds of the installed LoadGen.

A launcher may start several probes at once. If the result path is a folder, each writes its own file there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import psutil

from harness.catalog import LOADGEN
from harness.child.digests import hash_code
from harness.child.launched import PASS, find_rank
from harness.contract import BACKENDS, Busy, ProbeRequest, Result
from harness.machine.facts import (
    collect_machine_notes,
    describe_hardware,
    describe_machine,
    find_distribution_version,
    list_accelerators,
    list_computing_on,
)
from harness.machine.numa import list_usable


def execute(request: ProbeRequest, _give_up: Callable[[BaseException], None]) -> Result:
    """Probe. values: machine, accelerators, backends and loadgen versions ("" if missing), and seeds on request."""
    began = time.monotonic()
    values: dict[str, Any] = {
        "machine": describe_machine(),
        "accelerators": list_accelerators(),
        "backends": {
            name: find_distribution_version(*facts.distributions)
            for name, facts in BACKENDS.items()
            if not facts.elsewhere
        },
        "loadgen": find_distribution_version(*LOADGEN),
        "harness.code": hash_code(),
        "rank": find_rank(),
    }
    if request.hardware:
        values["hardware"] = {**describe_hardware(), "host": platform.node()}
    if request.quiet >= 0:
        busy = find_busy(request.gpus, request.quiet)
        values["busy"] = dataclasses.asdict(busy) if busy else None
    if request.seeds:
        # LoadGen is imported only on request, since the rest of a probe works without it.
        from harness.run.loadgen import probe_seeds

        values["seeds"] = probe_seeds()
    return Result(done=True, seconds=time.monotonic() - began, values=values, facts=collect_machine_notes())


# Find other users of this machine's processors, and of the GPUs of a run that is to be timed.

SHARE = 0.5  # share of a run's cores that other processes may use
GLANCE = 0.1  # seconds; one quiet measurement is enough


def find_busy(gpus: int, look: float) -> Busy | None:
    """Find a reason not to time a run now; None if the machine is quiet.

    ``gpus``: how many GPUs the run uses, counted from the first. ``look``: for how many seconds the processors must be
    busy, at least a tenth of a second.
    """
    found = find_foreign(list_computing_on(gpus), _list_own_processes()) if gpus else None
    return found or _find_busy_processors(look)


def find_foreign(computing: Iterable[tuple[int, int]], ours: frozenset[int]) -> Busy | None:
    for device, pid in computing:
        if pid not in ours:
            return _describe_process(f"GPU {device} is used by", pid)
    return None


def _list_own_processes() -> frozenset[int]:
    """List this process, the processes that wait for it, including the pass, and those that the pass started (such as a
    service), which carry its name behind a launcher."""
    me = psutil.Process()
    related = [me, *me.parents()]
    parent = os.environ.get("RECONCILE_PARENT", "")
    if parent.isdigit():
        with contextlib.suppress(psutil.Error):
            related += psutil.Process(int(parent)).children(recursive=True)
    name = os.environ.get(PASS)
    if name:
        related += [process for process in psutil.process_iter() if _read_variable(process, PASS) == name]
    return frozenset(process.pid for process in related)


def _read_variable(process: psutil.Process, name: str) -> str:
    """Read a variable of a process's environment; "" if that is private, as it is for another user's process."""
    try:
        return str(process.environ().get(name, ""))
    except psutil.Error:
        return ""


def _find_busy_processors(look: float) -> Busy | None:
    if _measure_share(_read_busy_seconds(), GLANCE) <= SHARE:
        return None
    look = max(look, GLANCE)
    before, began = _read_process_seconds(), _read_busy_seconds()
    share = _measure_share(began, look)
    if share <= SHARE:
        return None
    return find_load(before, _read_process_seconds(), _list_own_processes(), share, look * len(list_usable()))


def find_load(
    before: Mapping[int, float], after: Mapping[int, float], ours: frozenset[int], share: float, offered: float
) -> Busy | None:
    """Find who uses more than ``share`` of the processor time ``offered`` (core seconds). Our own use does not
    count."""
    used = {pid: seconds - before.get(pid, 0.0) for pid, seconds in after.items()}
    others = share - sum(seconds for pid, seconds in used.items() if pid in ours) / offered
    if others <= SHARE:
        return None
    foreign_use = {pid: seconds for pid, seconds in used.items() if pid not in ours and seconds > 0}
    what = f"others use {min(others, 1.0):.0%} of the cores, most of it"
    top = max(foreign_use, key=foreign_use.__getitem__, default=0)
    is_large = foreign_use.get(top, 0.0) > 0.05 * offered / len(list_usable())
    return _describe_process(what, top) if is_large else Busy(what=what)


def _measure_share(began: float, seconds: float) -> float:
    time.sleep(seconds)
    return max(0.0, (_read_busy_seconds() - began) / (seconds * len(list_usable())))


def _read_busy_seconds() -> float:
    """Return the core seconds used since boot on the cores that a run may use."""
    every = psutil.cpu_times(percpu=True)
    return sum(_sum_busy(every[number]) for number in list_usable() if number < len(every))


def _sum_busy(times: Any) -> float:
    idle = times.idle + getattr(times, "iowait", 0.0) + getattr(times, "steal", 0.0)
    return float(sum(times) - idle - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0))


def _read_process_seconds() -> dict[int, float]:
    """Map each process to the core seconds that it has used."""
    found = {}
    for process in psutil.process_iter(["pid", "cpu_times"]):
        times = process.info["cpu_times"]
        if times is not None:
            found[process.pid] = times.user + times.system
    return found


def _describe_process(what: str, pid: int) -> Busy:
    try:
        process = psutil.Process(pid)
        # Omit the process's arguments, since they may contain a secret, and records are permanent.
        began = datetime.fromtimestamp(process.create_time(), tz=UTC).strftime("%Y-%m-%d %H:%M UTC")
        return Busy(what=what, pid=pid, user=process.username(), command=process.name(), since=began)
    except psutil.Error:
        return Busy(what=what, pid=pid)

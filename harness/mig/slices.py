"""Slices of GPUs (MIG) for a child, each with its own process, and further slices for background loads."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from harness.catalog import write_slices
from harness.contract import BackgroundLoad, Fact, Result, as_notes, read_progress
from harness.errors import HarnessError
from harness.machine.facts import MIG, VISIBLE, Slice, list_accelerators, list_slices, list_taken
from harness.mig.requests import LoadRequest
from harness.mig.slice_session import SliceSession


def choose_slices(wanted: Sequence[str], here: Sequence[Slice], chosen: str | None) -> list[Slice]:
    """Choose for each ``wanted`` profile the first slice that fits; ``chosen``: the variable CUDA_VISIBLE_DEVICES,
    which may list slices or their GPUs. Raises HarnessError if there are not enough."""
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
    problem = f"the run needs {write_slices(wanted)} MIG slices, but {have or 'none'} can be used here"
    fix = f"create them: `reconcile mig create`; check {VISIBLE} and hardware.mig of the system"
    raise HarnessError(problem, "missing", fix)


open_session = SliceSession


def prepare_background(loads: Sequence[BackgroundLoad], own: int, folder: Path) -> Background:
    """Prepare the background loads of a run, to which only its first ``own`` slices are visible from here on."""
    return Background(loads, split_taken(own), folder)


def take_slices(wanted: Sequence[str], *, anywhere: bool = False) -> None:
    """Make only slices of these profiles visible to CUDA, in this process and its children. ``anywhere``: on a machine
    without any device, compute without slices. Raises HarnessError if there are not enough."""
    accelerators = list_accelerators()
    if accelerators or not anywhere:
        found = choose_slices(wanted, list_slices(accelerators), os.environ.get(VISIBLE))
        os.environ[VISIBLE] = ",".join(str(part["uuid"]) for part in found)


def split_taken(count: int) -> list[str]:
    """Return the UUIDs of the slices after the first ``count``; only these first ones remain visible."""
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


# Computation on further slices during a measured run. Each slice has one child, from before the run until after it.

_LONGEST = 600.0  # seconds until all of them compute
_STILL = 60.0  # seconds that each has to complete a batch after the run has ended
_LOOK = 0.05
_READS = 3  # tries, since a read during a write may return nothing


class Background:
    """Context in which all loads compute. ``slices``: the slice's UUID for each load; empty if no slice was taken and
    the loads compute on the available device."""

    def __init__(self, loads: Sequence[BackgroundLoad], slices: Sequence[str], folder: Path) -> None:
        self._loads, self._slices = loads, slices or [""] * len(loads)
        self._folders = [folder / f"background-{number}" for number in range(len(loads))]
        self.children: list[subprocess.Popen[bytes]] = []
        self._done: list[int] = []
        self._began = self._seconds = 0.0

    def __enter__(self) -> Self:
        try:
            for load, uuid, folder in zip(self._loads, self._slices, self._folders, strict=True):
                self.children.append(_start(load, uuid, folder))
            self._wait([0] * len(self._loads), _LONGEST)
        except BaseException:
            self._end()
            raise
        self._done, self._began = self._read(), time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def check(self) -> None:
        """Raise HarnessError if any load stopped before the end of the run."""
        after, self._seconds = self._read(), time.monotonic() - self._began
        self._wait(after, _STILL)
        self._done = [now - before for now, before in zip(after, self._done, strict=True)]

    def facts(self) -> dict[str, Fact]:
        """Return each load's samples per second during the run."""
        rates = [round(done / self._seconds, 3) for done in self._done] if self._seconds else []
        return as_notes({"background.samples_per_second": rates} if self._loads else {})

    def _wait(self, before: Sequence[int], longest: float) -> None:
        """Wait until each load has computed more than ``before``."""
        give_up = time.monotonic() + longest
        while stuck := [n for n, (now, then) in enumerate(zip(self._read(), before, strict=True)) if now <= then]:
            for number, child in enumerate(self.children):
                if child.poll() is not None:
                    raise self._explain(number)
            if time.monotonic() > give_up:
                name = self._loads[stuck[0]].benchmark.name
                problem = f"{name} in the background did not start computing within {longest:g} s"
                raise HarnessError(problem, "backend", self._suggest_log(stuck[0]))
            time.sleep(_LOOK)

    def _read(self) -> list[int]:
        return [max(_read_done(folder / "counter") for _ in range(_READS)) for folder in self._folders]

    def _explain(self, number: int) -> HarnessError:
        name = self._loads[number].benchmark.name
        with suppress(OSError, ValueError):
            said = Result.read(self._folders[number] / "result.json")
            return HarnessError(f"{name} in the background: {said.problem}", "backend", said.fix)
        return HarnessError(f"{name} in the background ended", "crash", self._suggest_log(number))

    def _suggest_log(self, number: int) -> str:
        return f"see its output in the log of this run: {self._loads[number].benchmark.name}"

    def _end(self) -> None:
        for child in self.children:
            with child:
                child.kill()


def _read_done(counter: Path) -> int:
    found = read_progress(counter)
    return found.done if found is not None and found.stage == "running" else 0


def _start(load: BackgroundLoad, uuid: str, folder: Path) -> subprocess.Popen[bytes]:
    folder.mkdir()
    LoadRequest(load=load, counter=str(folder / "counter")).write(folder / "request.json")
    shown = {VISIBLE: uuid} if uuid else {}
    words = [sys.executable, "-P", "-m", "harness", "load", str(folder / "request.json"), str(folder / "result.json")]
    environment = {**os.environ, "RECONCILE_PARENT": str(os.getpid()), **shown}
    return subprocess.Popen(words, cwd=folder, env=environment, stdin=subprocess.PIPE)

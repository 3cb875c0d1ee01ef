"""What a pass adds to Slurm's own placement: ``python -m tests.benchmarks.placement [NODES] [STEPS] [SECONDS]``.

Steps that only sleep are placed on a Slurm of this machine, first by sbatch alone, all at once, then as a pass does it:
through the order of ``execute/dispatch.py`` and the executor of the queue, a thread for each step. No step computes
anything, so that a machine with two cores can stand for eight. Utilisation: what the steps slept, by what the nodes had
from the first submission to the last end.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.contract import ProbeRequest
from reconciler.diff.change import Action, Change, Reason
from reconciler.execute.attempt import Intent, create
from reconciler.execute.child import Watch, run_child
from reconciler.execute.dispatch import Dispatch, Machine
from reconciler.execute.executors.table import Executors
from reconciler.plan.plan import Step
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.settings import CellSettings
from reconciler.storage.files import RepositoryPaths
from tests.cluster import Slurm

# In the place of an interpreter: -P -m harness VERB REQUEST RESULT.
_SLEEPER = """#!/bin/sh
sleep {seconds}
printf '{{"format": 1, "done": true, "seconds": {seconds}}}' > "$6.partial"
mv "$6.partial" "$6"
"""


def measure_bare(slurm: Slurm, steps: int, seconds: float, folder: Path) -> float:
    """Seconds until the last job has ended; what each left is what tells."""
    began = time.monotonic()
    for number in range(steps):
        line = f"sleep {seconds}; touch {folder}/{number}.ended"
        slurm.do("run", "sbatch", "--exclusive", "-N1", "-o", "/dev/null", "--wrap", line)
    while len(list(folder.glob("*.ended"))) < steps:
        time.sleep(0.1)
    return time.monotonic() - began


def measure_placed(root: Path, nodes: int, steps: int, seconds: float) -> float:
    paths = RepositoryPaths(root)
    python = root / "sleeper"
    python.write_text(_SLEEPER.format(seconds=f"{seconds:g}"))
    python.chmod(0o755)
    settings = CellSettings({"executor.slurm": True, "system.name": "lab", "system.python": str(python)})
    executors = Executors.of(paths)
    due = [_make_step(number, seconds) for number in range(steps)]
    places = executors.choose_for_system(settings).capacity(settings)
    dispatch = Dispatch(
        due,
        {step.change.address: set() for step in due},
        {step.change.address: Machine(places.machine, places.places) for step in due},
    )
    ended: queue.SimpleQueue[Step] = queue.SimpleQueue()

    def carry_out(step: Step) -> None:
        address = step.change.address
        attempt = create(paths.attempts, Intent(step.change.key, address, "k" * 64, 1, "2026", {}, settings))
        run_child(attempt, ProbeRequest(), Watch(lambda _: None), executors)
        ended.put(step)

    began = time.monotonic()
    while dispatch.waiting or dispatch.running:
        for step in dispatch.take():
            threading.Thread(target=carry_out, args=(step,), daemon=True).start()
        dispatch.end(ended.get())
    return time.monotonic() - began


def _make_step(number: int, seconds: float) -> Step:
    address = Address(Kind.RUN, f"open/lab/tiny{number}/Offline/performance")
    return Step(Change(address, f"step-{number}", Action.CREATE, Reason.NOT_RECORDED), seconds=seconds)


@contextmanager
def start_slurm(folder: Path, nodes: int) -> Iterator[Slurm]:
    found = Slurm(folder)
    found.do("start", str(nodes))
    os.environ.update(found.variables)
    try:
        yield found
    finally:
        found.do("stop")


def main(nodes: int = 8, steps: int = 40, seconds: float = 10.0) -> None:
    rounds = -(-steps // nodes)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        root = Path(place)
        for name in ("slurm", "bare", "lab"):
            (root / name).mkdir()
        with start_slurm(root / "slurm", nodes) as slurm:
            bare = measure_bare(slurm, steps, seconds, root / "bare")
            placed = measure_placed(root / "lab", nodes, steps, seconds)
    for name, lasted in (("Slurm alone", bare), ("through a pass", placed)):
        print(f"{name}: {lasted:.1f} s for {steps} steps on {nodes} nodes", end=", ")
        print(f"{(lasted - rounds * seconds) / rounds:.2f} s a step beside its own, ", end="")
        print(f"utilisation {steps * seconds / (nodes * lasted):.3f}")
    print(f"a pass adds {(placed - bare) / rounds:.2f} s a step; {placed / bare:.3f} of Slurm alone")


if __name__ == "__main__":
    print(subprocess.run(["uptime"], capture_output=True, text=True, check=False).stdout.strip())
    words = sys.argv[1:]
    main(*(int(word) for word in words[:2]), *(float(word) for word in words[2:3]))

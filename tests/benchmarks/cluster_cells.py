"""Cells of a null engine on nodes of a real Slurm, through a pass and by bare sbatch.

    python -m tests.benchmarks.cluster_cells [--nodes 8] [--cells 200] [--seconds 10] [--part 1/2] [--keep FILE]

Each cell is one performance run of the harness that waits instead of computing, for so many seconds; what all cells
share is made before. Bare: the very same requests, each a job of its own that `sbatch` takes. Both in one part, one
after the other, on a Slurm of this machine, which must have nothing else to do. A part of two takes some 6 minutes for
the figures above; FILE keeps what each part measured, and the last line is of all that it holds.

Printed: seconds from the first submission to the last result; what a step took beyond its own seconds, and of that what
a pass adds to Slurm; utilisation, the seconds of all runs by those that the nodes had.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.contract import RunRequest
from reconciler.execute.outcome import Event, Outcome, Status, StepStarted
from reconciler.reconcile.planning import Options
from reconciler.reconcile.run import run_pass
from reconciler.storage.process import FIXED, build_harness_command
from tests.benchmarks.placement import start_slurm
from tests.cluster import Slurm
from tests.cluster.lab import add_waiting
from tests.passes.repository import SPEC, Repository, make_repository

_QUERIES = 400  # what warms up waits for six more
_LOOK = 0.05


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one part: seconds by bare sbatch, and through a pass; ``looking``: of the latter's, before its first step."""

    nodes: int
    cells: int
    seconds: float
    bare: float
    placed: float
    looking: float


def make_cells(root: Path, cells: int, seconds: float) -> Repository:
    """One more than asked for: its request is what bare Slurm runs. They differ in their target alone."""
    repository = make_repository(root)
    add_waiting(repository, seconds / _QUERIES)
    head, _, rest = (root / SPEC).read_text(encoding="utf-8").partition("    tiny:\n")
    block = rest[: rest.index("  divisions:")]
    names = [f"tiny{number}" for number in range(cells + 1)]
    microseconds = round(seconds / _QUERIES * 1e6)
    declared = "".join(f"    {name}:\n{block}" for name in names)
    cell = f"{{SingleStream: {{target_latency: LATENCY us, min_query_count: {_QUERIES}}}}}"
    latencies = (f"{microseconds + number}" for number in range(cells + 1))
    entered = "".join(
        f"        {name}: {cell.replace('LATENCY', latency)}\n" for name, latency in zip(names, latencies, strict=True)
    )
    executor = "      executor: {slurm: {partition: lab, machines: 1000}}\n"
    status = "      status: available\n"
    text = f"{head}{declared}  divisions:\n    open:\n      box:\n{entered}"
    repository.write(SPEC, text.replace(status, f"{status}{executor}"))
    return repository


def take_request(repository: Repository, folder: Path) -> Path:
    """Make all that cells share, and the run of the first: gives a copy of its attempt as it began."""
    taken = threading.Event()

    def look() -> None:
        while not taken.wait(_LOOK):
            for placed in repository.paths.attempts.glob("*/placed"):
                request = placed.with_name("request.json")
                if request.exists() and '"mode": "performance"' in request.read_text():
                    shutil.copytree(placed.parent, folder, symlinks=True)
                    return

    thread = threading.Thread(target=look)
    thread.start()
    try:
        report = run_pass(repository.paths, Options(select=("benchmark=tiny0",), busy=True), report=lambda _: None)
    finally:
        taken.set()
        thread.join()
    _require_done(report.outcomes)
    return folder


def measure_bare(slurm: Slurm, taken: Path, root: Path, cells: int) -> float:
    """Copies of one attempt, each as a job. Seconds until the last has left its result."""
    began_in = RunRequest.read(taken / "request.json")
    old = str(Path(began_in.log_dir).parent)
    jobs = []
    for number in range(cells):
        folder = root / f"{number}"
        shutil.copytree(taken, folder, symlinks=True)
        shutil.rmtree(folder / "output")
        (folder / "output").mkdir()
        request = folder / "request.json"
        request.write_text((taken / "request.json").read_text().replace(old, str(folder)))
        child = build_harness_command("run", request, folder / "result.json")
        words = ["env", *(f"{name}={value}" for name, value in FIXED.items()), *child]
        jobs.append(f"cd {shlex.quote(str(folder))}; exec {shlex.join(words)}")
    began = time.monotonic()
    for job in jobs:
        slurm.do("run", "sbatch", "--exclusive", "-N1", "-o", "/dev/null", "--wrap", job)
    while len(list(root.glob("*/result.json"))) < cells:
        time.sleep(_LOOK)
    return time.monotonic() - began


def measure_placed(repository: Repository) -> tuple[float, float]:
    """Seconds from the first step to the last outcome of a pass, and those before the first step."""
    began = time.monotonic()
    times: list[float] = []

    def note(event: Event) -> None:
        if isinstance(event, StepStarted | Outcome):
            times.append(time.monotonic())

    report = run_pass(repository.paths, Options(select=("mode=performance",), busy=True), report=note)
    _require_done(report.outcomes)
    return times[-1] - times[0], times[0] - began


def _require_done(outcomes: Sequence[Outcome]) -> None:
    wrong = [
        f"{outcome.step.change.address}: {outcome.message}" for outcome in outcomes if outcome.status is not Status.DONE
    ]
    assert outcomes, "nothing was made"
    assert not wrong, "\n".join(wrong)


def measure(nodes: int, cells: int, seconds: float) -> Measured:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        root = Path(place)
        for name in ("slurm", "bare"):
            (root / name).mkdir()
        repository = make_cells(root / "lab", cells, seconds)
        with start_slurm(root / "slurm", nodes) as slurm:
            taken = take_request(repository, root / "taken")
            bare = measure_bare(slurm, taken, root / "bare", cells)
            placed, looking = measure_placed(repository)
    return Measured(nodes, cells, seconds, bare, placed, looking)


def describe(found: Sequence[Measured]) -> str:
    nodes, seconds = found[0].nodes, found[0].seconds
    cells, rounds = sum(each.cells for each in found), sum(-(-each.cells // each.nodes) for each in found)
    bare, placed = sum(each.bare for each in found), sum(each.placed for each in found)
    lines = [f"{cells} cells of {seconds:g} s on {nodes} nodes, in {len(found)} parts"]
    for name, lasted in (("bare sbatch", bare), ("through a pass", placed)):
        beyond, used = (lasted - rounds * seconds) / rounds, cells * seconds / (nodes * lasted)
        lines.append(f"{name}: {lasted:.1f} s, {beyond:.2f} s a step beyond its own, utilisation {used:.3f}")
    lines.append(f"a pass adds {(placed - bare) / rounds:.2f} s a step; pass / bare {placed / bare:.3f}")
    lines.append(f"before its first step a pass looked for {sum(each.looking for each in found):.1f} s")
    return "\n".join(lines)


def select_part(cells: int, nodes: int, part: str) -> int:
    """How many cells a part has: whole rounds over all nodes, as far as they go."""
    number, _, count = part.partition("/")
    rounds = -(-cells // nodes)
    before, after = (rounds * step // int(count) * nodes for step in (int(number) - 1, int(number)))
    return min(after, cells) - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--cells", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--part", default="1/1", metavar="N/COUNT")
    parser.add_argument("--keep", type=Path, metavar="FILE")
    asked = parser.parse_args()
    print(subprocess.run(["uptime"], capture_output=True, text=True, check=False).stdout.strip())
    found = measure(asked.nodes, select_part(asked.cells, asked.nodes, asked.part), asked.seconds)
    print(describe([found]))
    if asked.keep is not None:
        kept = json.loads(asked.keep.read_text()) if asked.keep.exists() else {}
        kept[asked.part] = asdict(found)
        asked.keep.write_text(json.dumps(kept, indent=1))
        print(f"\nso far: {describe([Measured(**each) for each in kept.values()])}")


if __name__ == "__main__":
    main()

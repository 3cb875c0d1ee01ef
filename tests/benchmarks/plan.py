"""Measure a no-op `plan`: ``python -m tests.benchmarks.plan [--json] [--snakemake PYTHON]``.

Complete processes with a warm cache, on generated repositories (see ``made_up``) of 1,000 and 10,000 resources,
alternating with a bare interpreter and with ``git status`` in the same repository. Cold is the first plan after an edit
of the spec. With ``--snakemake``, also a completed workflow of the same shape under ``snakemake -n -q`` of that
interpreter.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.history import make
from tests.benchmarks.made_up import SPEC
from tests.benchmarks.rounds import ROUNDS, Measure, interleave, median, report

COLD_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Size:
    """Systems x benchmarks with about this many resources; limits in seconds and relative to a bare interpreter."""

    name: str
    systems: int
    benchmarks: int
    warm: float
    times_bare: float
    cold: float


SIZES = (Size("1,000", 10, 5, 0.30, 30, 5.0), Size("10,000", 20, 25, 1.0, 100, 30.0))
MEMORY = 200  # MB
PLAN = (str(Path(sys.executable).with_name("reconcile")), "plan")  # as users start it


@dataclass(frozen=True, slots=True)
class Taken:
    """The resources used by one process: wall-clock and processor seconds, and its peak of resident memory in MB."""

    seconds: float
    processor: float
    memory: float


def take(command: Sequence[str], folder: Path) -> Taken:
    """Run a command. Raises CalledProcessError unless it exits with 0, which means "in sync" for `plan`."""
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Taken(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def interleaved(commands: Mapping[str, Sequence[str]], folder: Path, rounds: int) -> list[dict[str, float]]:
    """Return the seconds of every command, once per round, after one untimed run of each."""
    for command in commands.values():
        take(command, folder)

    def timed(command: Sequence[str]) -> Callable[[], float]:
        return lambda: take(command, folder).seconds

    return interleave({name: timed(command) for name, command in commands.items()}, rounds)


def seconds(rounds: list[dict[str, float]], name: str) -> float:
    return median(rounds, lambda item: item[name])


def ratio(rounds: list[dict[str, float]], name: str, of: str) -> float:
    return median(rounds, lambda item: item[name] / item[of])


def cold(folder: Path) -> list[Taken]:
    """Time plans after an edit of a comment, which read and compile the complete spec again."""
    taken = []
    for number in range(COLD_ROUNDS):
        with (folder / SPEC).open("a") as stream:
            stream.write(f"# {number}\n")
        taken.append(take(PLAN, folder))
    return taken


def measure(size: Size, folder: Path, rounds: int, snakemake: str) -> Iterator[Measure]:
    repository = folder / f"repository-{size.name}"
    # In a process of its own: what a child takes at most counts from what its parent had when it started it.
    count = make(repository, size.systems, size.benchmarks)
    commands = {"plan": PLAN, "bare": [sys.executable, "-c", "pass"], "git status": ["git", "status"]}
    taken = interleaved(commands, repository, rounds)
    others = ", ".join(f"{name} {seconds(taken, name):.3f} s" for name in ("bare", "git status"))
    detail = f"{count} resources; {others}"
    yield Measure(f"warm {size.name}", seconds(taken, "plan"), size.warm, False, " s", detail)
    times, git = ratio(taken, "plan", "bare"), ratio(taken, "plan", "git status")
    detail = f"bare interpreters; {git:.1f} times `git status`"
    yield Measure(f"warm over bare {size.name}", times, size.times_bare, False, detail=detail)
    again = take(PLAN, repository)
    detail = f"peak, warm; {again.processor:.3f} s of a processor"
    yield Measure(f"memory {size.name}", again.memory, MEMORY, False, " MB", detail)
    first = cold(repository)
    detail = f"{max(item.memory for item in first):.0f} MB, {COLD_ROUNDS} edits"
    middle = statistics.median(item.seconds for item in first)
    yield Measure(f"cold {size.name}", middle, size.cold, False, " s", detail)
    if snakemake:
        yield _compare_with_snakemake(size, repository, folder / f"snakemake-{size.name}", rounds, snakemake)


def growth(measures: Sequence[Measure]) -> Measure:
    """Return the growth of time from the smaller to the larger size, relative to that of the number of resources."""
    small, large = (next(m for m in measures if m.name == f"warm {size.name}") for size in SIZES)
    counts = [int(m.detail.partition(" ")[0]) for m in (small, large)]
    return Measure("growth", large.value / small.value, counts[1] / counts[0], False, detail="times, warm")


# -- Snakemake ----------------------------------------------------------------------------------------------------

_SNAKEFILE = """\
CELLS = [line.strip() for line in open("cells.txt")]
rule all:
    input: expand("result/{cell}", cell=CELLS)
rule engine:
    output: "engine/{cell}"
    params: batch=8
    shell: "echo engine > {output}"
rule accuracy:
    input: "engine/{cell}"
    output: "accuracy/{cell}"
    shell: "echo accuracy > {output}"
rule performance:
    input: "engine/{cell}"
    output: "performance/{cell}"
    params: target=1000
    shell: "echo performance > {output}"
rule score:
    input: "accuracy/{cell}"
    output: "score/{cell}"
    shell: "echo score > {output}"
rule result:
    input: "accuracy/{cell}", "performance/{cell}", "score/{cell}"
    output: "result/{cell}"
    shell: "echo result > {output}"
"""


def _compare_with_snakemake(size: Size, repository: Path, folder: Path, rounds: int, python: str) -> Measure:
    """Compare with the same cells and the same five jobs for each, all of them completed."""
    cells = [f"cell-{number:05}" for number in range(size.systems * size.benchmarks * 4)]
    for kind in ("engine", "accuracy", "performance", "score", "result"):
        (folder / kind).mkdir(parents=True)
        for cell in cells:
            (folder / kind / cell).write_text(f"{kind}\n")
    (folder / "cells.txt").write_text("\n".join(cells) + "\n")
    (folder / "Snakefile").write_text(_SNAKEFILE)
    base = [python, "-m", "snakemake", "--directory", str(folder), "-s", str(folder / "Snakefile")]
    take([*base, "--cores", "1", "--touch", "--quiet"], folder)
    taken = interleaved({"plan": PLAN, "snakemake": [*base, "-n", "-q"]}, repository, rounds)
    times = ratio(taken, "snakemake", "plan")
    detail = f"snakemake -n -q {seconds(taken, 'snakemake'):.2f} s, plan {seconds(taken, 'plan'):.2f} s"
    return Measure(f"snakemake over plan {size.name}", times, 1.0, detail=detail)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="interleaved rounds (default %(default)s)")
    parser.add_argument("--snakemake", default="", metavar="PYTHON", help="an interpreter that has snakemake")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measures = [m for size in SIZES for m in measure(size, Path(folder), given.rounds, given.snakemake)]
    return report("plan", [*measures, growth(measures)], as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())

"""CPU time of `plan`, `pr` and `audit` on 2,000 cells and 8,040 records, against another commit of this project:
``python -m tests.benchmarks.large_history [--against COMMIT] [--rounds N] [--folder FOLDER]``.

User and system time of the whole process and of every git that it starts, so that other work on the machine weighs
little; the two take turns in each round. What they print must be the same.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from io import BytesIO
from pathlib import Path

from tests.benchmarks.history import make
from tests.benchmarks.made_up import change_target
from tests.benchmarks.rounds import interleave

TOP = Path(__file__).parents[2]
SIZE = (25, 20)  # systems and benchmarks with four scenarios each
COMMANDS = {
    "plan": ("plan",),
    "pr": ("pr", "--base", "HEAD~1", "--json"),
    "audit": ("audit", "--at", "HEAD~1", "--json"),
}


def run(sources: Path, repository: Path, words: tuple[str, ...], printed: dict[str, bytes]) -> float:
    """CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-P", "-m", "reconciler.cli.main", *words]
    environment = {**os.environ, "PYTHONPATH": str(sources)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    ended = subprocess.run(command, cwd=repository, env=environment, capture_output=True, check=False)
    if ended.returncode not in (0, 2):
        raise SystemExit(f"{' '.join(words)} of {sources} ended with {ended.returncode}: {ended.stderr.decode()}")
    printed[str(sources)] = ended.stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def check_out(commit: str, folder: Path) -> Path:
    data = subprocess.run(["git", "archive", commit], cwd=TOP, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(data)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def prepare(root: Path) -> None:
    """The last commit is days old: a plan tells the age of a change, and "3 seconds ago" would differ at each start."""
    make(root, *SIZE)
    change_target(root)
    made = (datetime.now(UTC) - timedelta(days=3, hours=12)).isoformat(timespec="seconds")
    environment = {**os.environ, "GIT_AUTHOR_DATE": made, "GIT_COMMITTER_DATE": made}
    command = ["git", "commit", "--quiet", "--all", "--message", "Ask for less"]
    subprocess.run(command, cwd=root, env=environment, check=True)


def compare(repository: Path, other: Path, rounds: int) -> None:
    for name, words in COMMANDS.items():
        printed: dict[str, bytes] = {}
        measures: dict[str, Callable[[], float]] = {
            "now": partial(run, TOP, repository, words, printed),
            "before": partial(run, other, repository, words, printed),
        }
        for measure in measures.values():  # caches and bytecode
            measure()
        results = interleave(measures, rounds)
        now, before = (statistics.median(result[of] for result in results) for of in measures)
        same = "the same output" if len(set(printed.values())) == 1 else "OTHER OUTPUT"
        print(f"{name}: {now:.2f} s CPU, before {before:.2f} s, ratio {now / before:.2f}; {same}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", default="HEAD~1", metavar="COMMIT", help="default %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default %(default)s")
    parser.add_argument("--folder", type=Path, help="where the repository is, or is made and kept")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        repository = (given.folder or Path(scratch) / "cells").absolute()
        if not repository.exists():
            prepare(repository)
        compare(repository, check_out(given.against, Path(scratch) / "before"), given.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Measure commands that read git's history: ``python -m tests.benchmarks.history [--json]``.

Uses a generated repository (see ``made_up``) of about 1,000 records, each added with its logs by one commit, and for
`pr` one of 1,000 cells. The logs are not LoadGen's: an audit reads, hashes and rejects each, so parsing is not
measured.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from reconciler.record.codec import decode
from reconciler.storage.git import list_files_at
from tests.benchmarks.made_up import change_target
from tests.benchmarks.rounds import Measure, report

LIMITS = {"pr": 5.0, "audit": 30.0, "history": 5.0, "blame": 5.0, "diff": 5.0}
SYSTEMS, BENCHMARKS = 6, 10
CELLS = (25, 10)  # systems and benchmarks with four scenarios each
CELLS_LIMIT = 2.0


def make(root: Path, systems: int, benchmarks: int) -> int:
    """Generate a repository in a process of its own. Return its number of resources."""
    made = [sys.executable, "-m", "tests.benchmarks.made_up", str(root), str(systems), str(benchmarks)]
    return int(subprocess.check_output(made))


def make_history(root: Path, systems: int) -> int:
    """Return the number of commits. The last one changes a target."""
    make(root, systems, BENCHMARKS)
    stream = "".join(_commits(root))
    subprocess.run(["git", "fast-import", "--quiet", "--force"], cwd=root, input=stream.encode(), check=True)
    subprocess.run(["git", "reset", "--quiet", "--hard", "long"], cwd=root, check=True)
    commit_change(root)
    return int(subprocess.check_output(["git", "rev-list", "--count", "HEAD"], cwd=root))


def commit_change(root: Path) -> None:
    change_target(root)
    subprocess.run(["git", "commit", "--quiet", "--all", "--message", "Ask for less"], cwd=root, check=True)


def _commits(root: Path) -> Iterator[str]:
    """Yield input for fast-import: the spec, then one commit per record, in the order in which they were made."""
    files = {path: blob for path, (blob, _) in list_files_at(root, "HEAD").items()}
    records = {p: decode((root / p).read_bytes(), p) for p in files if p.startswith("state/records/")}
    begin = {path: blob for path, blob in files.items() if not path.startswith("state/")}
    yield _commit(0, "Declare a submission", begin)
    for number, (path, record) in enumerate(sorted(records.items(), key=lambda item: item[1].started)):
        logs = [f"state/logs/{a.sha256}" for a in record.artifacts if a.place == "logs"]
        yield _commit(number + 1, "Record 1 outcome", {name: files[name] for name in (path, *logs)})


def _commit(number: int, message: str, files: dict[str, str]) -> str:
    lines = [f"M 100644 {blob} {path}" for path, blob in files.items()]
    who = f"committer A Lab <lab@example.com> {1767571200 + number} +0000"
    return "\n".join(["commit refs/heads/long", who, f"data {len(message)}", message, *lines, "", ""])


def commands(cell: str) -> dict[str, list[str]]:
    return {
        "pr": ["pr", "--base", "HEAD~1"],
        "audit": ["audit", "--at", "HEAD~1"],
        "history": ["history", cell],
        "blame": ["blame", cell],
        "diff": ["diff", "HEAD~1.."],
    }


def took(root: Path, arguments: list[str], rounds: int) -> float:
    """Return the median seconds of a complete process that exits with 0 or 2."""
    command = [str(Path(sys.executable).with_name("reconcile")), *arguments]
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        ended = subprocess.run(command, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        seconds.append(time.perf_counter() - began)
        if ended.returncode not in (0, 2):
            raise SystemExit(f"{' '.join(arguments)} ended with {ended.returncode}: {ended.stderr.decode()}")
    return statistics.median(seconds)


def measure(folder: Path, rounds: int) -> Iterator[Measure]:
    whole, half = folder / "whole", folder / "half"
    count = make_history(whole, SYSTEMS)
    make_history(half, SYSTEMS // 2)
    cell = "open/system-000/benchmark-000/Offline"
    for name, arguments in commands(cell).items():
        seconds = took(whole, arguments, rounds)
        less = took(half, arguments, rounds)
        detail = f"{count} commits, {len(list(whole.glob('state/records/*/*')))} records; half of them {less:.2f} s"
        yield Measure(name, seconds, LIMITS[name], False, " s", detail)


def measure_cells(folder: Path, rounds: int) -> Measure:
    root = folder / "cells"
    make(root, *CELLS)
    commit_change(root)
    seconds = took(root, commands("")["pr"], rounds)
    records = len(list(root.glob("state/records/*/*")))
    return Measure("pr of 1,000 cells", seconds, CELLS_LIMIT, False, " s", f"{records} records")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each (default %(default)s)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measures = [*measure(Path(folder), given.rounds), measure_cells(Path(folder), given.rounds)]
    return report("history", measures, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())

"""A pass's own time on the quickstart, its child processes excluded: ``python -m tests.benchmarks.pass_ [--json]``.

Fresh: everything is built, run, scored and rendered, which takes a minute each. No-op: nothing is left to do.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from reconciler.spec.shipped import find_shipped
from tests.benchmarks.rounds import ROUNDS, Measure, report

LIMIT = 2.0  # seconds


def quickstart(folder: Path) -> Path:
    """A repository of a newcomer's: the quickstart's spec, committed."""
    (folder / "specs").mkdir(parents=True)
    shutil.copy(find_shipped("specs/quickstart.yaml"), folder / "specs" / "quickstart.yaml")
    (folder / ".gitignore").write_text(".reconcile/\n")
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "Declare a submission"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


def one_pass(folder: Path) -> dict[str, Any]:
    """The report of a pass that ended in sync."""
    command = [str(Path(sys.executable).with_name("reconcile")), "--json"]
    ended = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    document: dict[str, Any] = json.loads(ended.stdout)
    return document


def measured(name: str, passes: list[dict[str, Any]]) -> Measure:
    own = [float(item["own_seconds"]) for item in passes]
    children = statistics.median(float(item["child_seconds"]) for item in passes)
    steps = len(passes[0]["outcomes"])
    detail = f"{steps} steps, children {children:.1f} s; {len(own)} passes from {min(own):.2f} to {max(own):.2f} s"
    return Measure(f"{name} pass, own time", statistics.median(own), LIMIT, False, " s", detail)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="passes with nothing to do (default %(default)s)")
    parser.add_argument("--fresh", type=int, default=1, help="passes from scratch (default %(default)s)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        repositories = [quickstart(Path(folder) / str(number)) for number in range(given.fresh)]
        fresh = [one_pass(repository) for repository in repositories]
        noop = [one_pass(repositories[0]) for _ in range(given.rounds)]
    return report("pass", [measured("fresh", fresh), measured("no-op", noop)], as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())

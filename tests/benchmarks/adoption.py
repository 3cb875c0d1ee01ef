"""``python -m tests.benchmarks.adoption TREE...``: `adopt` of each closed submitter of a published tree, then `plan`.

Each goes into an empty repository of its own, which is removed again. Prints what was refused, with its reason; steps
that a plan still has; logs that are rendered otherwise than they came; and how many files of each name differ.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler.errors import IN_SYNC, NOT_IN_SYNC
from reconciler.loadgen.log_files import ACCURACY_LOG, ACCURACY_TEXT, BUILT_IN_CONF, DETAIL, SUMMARY
from reconciler.tree.reading.cell import README, USER_CONF, CellFiles
from reconciler.tree.reading.places import find_roots

_LOGS = frozenset({DETAIL, SUMMARY, ACCURACY_LOG, ACCURACY_TEXT})
_KINDS = _LOGS | {README, USER_CONF, BUILT_IN_CONF}
_RUN = " ("
_RECONCILE = (sys.executable, "-c", "import sys; from reconciler.cli.main import main; sys.exit(main())")


@dataclass
class Adopted:
    """``results``: scenario folders; ``whole``: those whose performance and accuracy run have a detail log that can be
    read; ``cells``: those that were adopted with all their runs."""

    results: int = 0
    whole: int = 0
    cells: int = 0
    left_out: dict[str, str] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)
    altered: list[str] = field(default_factory=list)
    differing: Counter[str] = field(default_factory=Counter)
    failed: str = ""


def adopt_submitter(folder: Path) -> Adopted:
    adopted = Adopted()
    for root in find_roots(folder):
        for place in root.submitters:
            for cell in place.cells():
                files = CellFiles(place, cell)
                adopted.results += 1
                adopted.whole += all(run.detail.value is not None for run in (files.performance, files.accuracy))
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["git", "init", "--quiet", scratch], check=True)
        code, report = _reconcile(scratch, "adopt", str(folder.resolve()))
        if code not in (IN_SYNC, NOT_IN_SYNC):
            adopted.failed = str(report)
            return adopted
        adopted.left_out = report["left_out"]
        # One of whose runs alone was refused is in the spec: "cell (accuracy run)".
        adopted.cells = report["cells"] - len({name.partition(_RUN)[0] for name in adopted.left_out if _RUN in name})
        for path in (report["reproduced"] or {}).get("differing", ()):
            name = path.rpartition("/")[2]
            kind = "system description" if "/systems/" in path else name if name in _KINDS else "measurements"
            adopted.differing[kind] += 1
            adopted.altered += [path] if name in _LOGS else []
        code, report = _reconcile(scratch, "plan")
        adopted.failed = "" if code in (IN_SYNC, NOT_IN_SYNC) else f"plan: {report}"
        if code == NOT_IN_SYNC:
            adopted.steps = [str(step["address"]) for step in report["steps"]]
    return adopted


def _reconcile(folder: str, *words: str) -> tuple[int, Any]:
    """The exit code and the document; the last line of what was said where there is none."""
    ended = subprocess.run([*_RECONCILE, *words, "--json"], cwd=folder, capture_output=True, text=True, check=False)
    try:
        return ended.returncode, json.loads(ended.stdout)
    except ValueError:
        return ended.returncode, (ended.stderr.strip().splitlines() or ["it said nothing"])[-1]


def main() -> int:
    for tree in map(Path, sys.argv[1:]):
        total, submitters, done = Adopted(), 0, 0
        for folder in sorted(path for path in (tree / "closed").iterdir() if (path / "results").is_dir()):
            found = adopt_submitter(folder)
            submitters, done = submitters + 1, done + (not found.failed)
            if found.failed:
                print(f"{folder.name}: {found.failed}")
            for name, why in sorted(found.left_out.items()):
                print(f"{folder.name}: not adopted: {name}: {why}")
            for address in found.steps:
                print(f"{folder.name}: to do: {address}")
            for path in found.altered:
                print(f"{folder.name}: not byte for byte: {path}")
            print(f"{folder.name}: {found.cells} of {found.whole} whole, {found.results} results", flush=True)
            total.results, total.whole = total.results + found.results, total.whole + found.whole
            total.cells += found.cells
            total.differing += found.differing
        print(f"{tree}: {done} of {submitters} submitters, {total.cells} adopted of {total.whole} results whose logs")
        print(f"are whole, of {total.results} in all; differing: {dict(total.differing.most_common())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Measure time and memory of ``verify-tree`` and ``check`` for a round of closed results. ``--results 600``.

The tree contains copies of one cell's real logs (short runs), each with another system, target and digest.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from reconciler.check.engine import check_tree
from reconciler.tree.findings import TreeReport
from reconciler.verify.engine import verify_tree
from tests.unit.check.made import SCENARIOS, make_logs, make_tree


def make_round(folder: Path, results: int) -> Path:
    """Make submitters with 12 systems each and three results per system; a third of the targets contradict the log."""
    clean = make_tree(folder / "one", make_logs(folder / "logs"), lengthened=False)
    source = clean / "closed/Acme"
    root = folder / "round"
    for number in range(results // len(SCENARIOS)):
        submitter, name = f"Submitter{number // 12:02}", f"sys{number:03}"
        top = root / "closed" / submitter
        if not top.exists():
            shutil.copytree(source / "src", top / "src")
            shutil.copytree(source / "documentation", top / "documentation")
        description = json.loads((source / "systems/sys1.json").read_text())
        description.update(submitter=submitter, system_name=name)
        (top / "systems").mkdir(exist_ok=True)
        (top / f"systems/{name}.json").write_text(json.dumps(description, indent=2))
        shutil.copytree(source / "results/sys1", top / "results" / name)
        _distinguish(top / "results" / name, number)
    return root


def _distinguish(folder: Path, number: int) -> None:
    for path in folder.rglob("mlperf_log_detail.txt"):
        path.write_text(path.read_text().replace('"time_ms": 0.0', f'"time_ms": {number}.0'))
    if number % 3 == 0:
        for path in folder.rglob("user.conf"):
            path.write_text(re.sub(r"target_qps = 1000", "target_qps = 920", path.read_text()))


def measure(function: Callable[[Path], TreeReport], root: Path) -> dict[str, float]:
    began = time.perf_counter()
    report = function(root)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "results": len(report.facts),
        "findings": len(report.findings),
        "seconds": round(seconds, 2),
        "ms_per_result": round(1000 * seconds / max(1, len(report.facts)), 2),
        "peak_mib": round(peak, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=int, default=600)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = make_round(Path(folder), given.results)
        figures = {"verify-tree": measure(verify_tree, root), "check": measure(check_tree, root)}
    print(json.dumps(figures) if given.json else "\n".join(f"{name}: {value}" for name, value in figures.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Compare `check` with the official checkers: ``python -m tests.benchmarks.agreement TREE CHECKOUT...``.

TREE is a repository of published results, each CHECKOUT one of the official inference repository (at the round's tag,
or the newest). Prints each result on which a checker and `check` disagree: accepted by the checker but with an error of
ours, or rejected without one. Submitters are checked one at a time, so that a crash does not end the others.
"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reconciler.check.engine import check_tree
from reconciler.resource.rules import Severity
from reconciler.tree.findings import TreeReport

# The folder of a result; the newer checker names the performance log in it, from the root of the file system.
_NO_RESULTS = re.compile(r"NoResults (?:\S*?/)??((?:closed|open|network)/[^/\s]+/results/[^/\s]+/[^/\s]+/[^/\s]+)")
_FLAGS = ("--skip-extra-files-in-root-check", "--skip-power-check")


@dataclass(frozen=True)
class Verdicts:
    """The paths division/submitter/results/system/benchmark/scenario that the checker accepts and rejects."""

    accepted: frozenset[str]
    refused: frozenset[str]
    crashed: str  # its last line, "" where it came to its end


def run_checker(checkout: Path, tree: Path, submitter: str, round_name: str) -> Verdicts:
    folder = checkout / "tools/submission"
    single = folder / "submission_checker.py"
    program = [single.name] if single.is_file() else ["-m", "submission_checker.main"]
    with tempfile.TemporaryDirectory() as scratch:
        table = Path(scratch) / "summary.csv"
        command = [sys.executable, *program, "--input", str(tree), "--version", round_name, "--submitter", submitter]
        ended = subprocess.run(
            [*command, "--csv", str(table), *_FLAGS], cwd=folder, capture_output=True, text=True, check=False
        )
        text = ended.stdout + ended.stderr
        rows = list(csv.DictReader(table.open())) if table.is_file() else []
    accepted = {
        f"{row['Division']}/{submitter}/results/{row['Platform']}/{row['Model']}/{row['Scenario']}" for row in rows
    }
    return Verdicts(frozenset(accepted), frozenset(_NO_RESULTS.findall(text)), _last_line(text))


def _last_line(text: str) -> str:
    return "" if "SUMMARY" in text else (text.strip().splitlines() or ["it said nothing"])[-1]


def disagreements(report: TreeReport, submitter: str, verdicts: Verdicts) -> Iterator[tuple[str, str, str]]:
    """Return (what, path, our rules) of each result on which the two differ, ignoring case in scenario names."""
    ours: dict[str, set[str]] = {}
    for finding in report.findings:
        if finding.submitter == submitter and finding.severity is Severity.ERROR:
            ours.setdefault(finding.cell.lower(), set()).add(finding.rule.id)
    for facts in report.facts:
        if facts.submitter != submitter:
            continue
        division, rest = facts.cell.split("/", 1)
        path = f"{division}/{submitter}/results/{rest}".lower()
        rules = {r for cell, found in ours.items() if facts.cell.lower().startswith(cell) for r in found}
        if rules and path in {name.lower() for name in verdicts.accepted}:
            yield "accepted, and an error of ours", path, ", ".join(sorted(rules))
        if not rules and path in {name.lower().rstrip("/") for name in verdicts.refused}:
            yield "refused, and no error of ours", path, ""


def main() -> int:
    tree, *checkouts = map(Path, sys.argv[1:])
    report = check_tree(tree)
    counted: Counter[tuple[str, str, str]] = Counter()
    for checkout in checkouts:
        for submitter in sorted({facts.submitter for facts in report.facts}):
            verdicts = run_checker(checkout.resolve(), tree.resolve(), submitter, report.rounds[0])
            if verdicts.crashed:
                print(f"{checkout.name}: crashed on {submitter}: {verdicts.crashed}")
            for whole in sorted(name for name in verdicts.refused if name.count("/") == 1):
                print(f"{checkout.name}: refused as a whole, so that nothing of it is compared: {whole}")
            for what, path, rules in disagreements(report, submitter, verdicts):
                counted[checkout.name, what, rules] += 1
                print(f"{checkout.name}: {what}: {path} {rules}")
    for (name, what, rules), number in counted.most_common():
        print(f"{number:6} {name}: {what} {rules}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

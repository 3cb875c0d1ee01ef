"""Corrupt an accepted Endpoints submission in many ways and print the findings of our check and of the official
checker:

    python -m tests.benchmarks.endpoints_checker ENVIRONMENT

ENVIRONMENT is a virtual environment with the package endpoints-submission-cli. Exits with 1 unless both reject each
submission by the same rule.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from reconciler.resource.rules import Severity
from tests.unit.endpoints.tree.mutations import MUTATIONS, Mutation, find_rules, write_accepted

_CODE = """
import json, sys
from pathlib import Path
from submission_checker.checker import SubmissionChecker
for folder in map(Path, sys.argv[1:]):
    named = {f"{name}_path": folder.with_suffix(f".{name}") for name in ("seed_sets", "approved_drafters")}
    report = SubmissionChecker(folder, **{name: path for name, path in named.items() if path.is_file()}).run()
    print(json.dumps([sorted({r.rule for r in report.errors}), sorted({r.rule for r in report.warnings})]))
"""
Found = tuple[set[str], set[str]]  # rules of errors and of warnings


def ask_official(python: Path, folders: list[Path]) -> list[Found]:
    """Return the official checker's findings in each folder, with the lists next to it."""
    answer = subprocess.run([python, "-c", _CODE, *folders], capture_output=True, check=True, text=True)
    return [(set(errors), set(warnings)) for errors, warnings in map(json.loads, answer.stdout.splitlines())]


def ask_ours(folder: Path) -> Found:
    found = find_rules(folder)
    return found[Severity.ERROR], found[Severity.WARNING]


def spoil_all(place: Path) -> list[tuple[Mutation, Path]]:
    """Make a corrupted copy of the accepted submission for each mutation."""
    accepted, spoiled = write_accepted(place), []
    for number, mutation in enumerate(MUTATIONS):
        root = place / f"{number:03d}"
        mutation.copy(accepted, root)
        spoiled.append((mutation, root))
    return spoiled


def compare(python: Path, place: Path) -> list[tuple[Mutation, Found, Found]]:
    """Return (mutation, ours, official) for each mutation."""
    spoiled = spoil_all(place)
    official = ask_official(python, [root for _, root in spoiled])
    return [(mutation, ask_ours(root), said) for (mutation, root), said in zip(spoiled, official, strict=True)]


def agrees(mutation: Mutation, ours: Found, official: Found) -> bool:
    """Return True if both report the rule that the mutation breaks, as an error unless the official checker only
    warns."""
    wanted = mutation.ours or mutation.rule
    if mutation.warning:
        return mutation.rule in official[1] and wanted in ours[0] | ours[1]
    return mutation.rule in official[0] and wanted in ours[0]


def main(environment: Path) -> int:
    with tempfile.TemporaryDirectory() as place:
        compared = compare(environment / "bin/python", Path(place))
    disagreeing = 0
    print(f"{'mutation':45} {'rule':32} agree  only ours / only official")
    for mutation, ours, official in compared:
        agree = agrees(mutation, ours, official)
        disagreeing += not agree
        more, fewer = ours[0] - official[0], official[0] - ours[0]
        rest = "; ".join(filter(None, (" ".join(sorted(more)), f"/ {' '.join(sorted(fewer))}" if fewer else "")))
        print(f"{mutation.name:45} {mutation.rule:32} {'yes' if agree else 'NO':6} {rest}")
    print(f"{len(compared) - disagreeing} of {len(compared)} agree")
    return 1 if disagreeing else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

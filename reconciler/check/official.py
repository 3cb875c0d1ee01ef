"""Run the two official submission checkers of a checkout over a tree, and map their messages to cells.

Each runs in a child process with a separate working folder. A checker that ends without its closing line has crashed,
so it proves nothing about the tree.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from reconciler.check.demands import NEW, OLD
from reconciler.errors import ReconcilerError
from reconciler.resource.kinds import DIVISIONS
from reconciler.resource.rules import Rule, Severity
from reconciler.rules.rounds import list_rounds
from reconciler.storage.process import Child, build_child_environment
from reconciler.tree.findings import Complaint, OfficialRun, Place, TreeFinding, TreeReport

_FOLDER = Path("tools/submission")
_SUMMARY = re.compile(r"SUMMARY: submission (?P<verdict>looks OK|has errors)")
_ERROR = re.compile(r"^(?:\[[^\]]* ERROR\]|ERROR:[\w.-]*:)\s*(?P<text>.*)$")
_NO_RESULTS = re.compile(r"NoResults (?P<path>\S+)")
# A submitter's name may contain spaces, so only the folder that follows it shows where it ends.
_RESULT_PATH = re.compile(
    rf"(?P<division>{'|'.join(DIVISIONS)})/(?P<submitter>[^/]+)/(?:results|measurements|compliance)"
    r"(?:/(?P<system>[^/\s,]+)(?:/(?P<benchmark>[^/\s,]+)(?:/(?P<scenario>[^/\s,]+))?)?)?"
)
_SYSTEM_PATH = re.compile(
    rf"(?P<division>{'|'.join(DIVISIONS)})/(?P<submitter>[^/]+(?=/systems/)|[^/\s]+)"
    r"(?:/systems/(?P<system>[^/\s,]+)\.json)?"
)
# Findings here that are known to crash the newer checker, and also the older one if it reads the same files.
_FATAL = (
    "benchmark.category",
    "system.missing",
    "system.readable",
    "benchmark.stray",
    "submitter.results",
    "system.fields",
    "system.network",
    "files.missing",
    "files.readable",
    "measurements.missing",
    "benchmark.known",
)


class Checker(Struct, frozen=True):
    name: str
    rule: Rule
    file: str
    arguments: tuple[str, ...]


_NEWER = Rule("official.newer", "the official checker's message", (NEW,))
_OLDER = Rule("official.older", "the older official checker's message", (OLD,))
CHECKERS = (
    Checker(NEW, _NEWER, "submission_checker/main.py", ("-m", "submission_checker.main")),
    # Until v5.1.1, the older one was the only checker. It had the last two names, the last one until v2.1.
    *(
        Checker(OLD, _OLDER, name, (name,))
        for name in ("submission_checker_old.py", "submission_checker.py", "submission-checker.py")
    ),
)


def run_official(
    report: TreeReport, tree: Path, checkout: Path, commit: str, output: Path, seconds: float = 3600.0
) -> TreeReport:
    """Return the report with both checkers' messages added. Each checker's output is saved in a file in ``output``.

    Raises ReconcilerError if ``checkout`` has no checker. ``seconds``: time limit for each checker.
    """
    folder = checkout.resolve() / _FOLDER
    if not any((folder / checker.file).is_file() for checker in CHECKERS):
        problem = f"{checkout} has none of {', '.join(checker.file for checker in CHECKERS)} in {_FOLDER}"
        raise ReconcilerError(problem, fix="pass a checkout of the official inference repository")
    if not report.rounds or report.rounds[0] not in list_rounds():
        problem = f"{tree}: the official checkers need a round, but the tree's round is unknown"
        raise ReconcilerError(problem, fix="set it: --round ROUND")
    output.mkdir(parents=True, exist_ok=True)
    runs, findings = [], list(report.findings)
    for checker in CHECKERS:
        if (folder / checker.file).is_file():
            run, found = _run(checker, report, tree.resolve(), folder, commit, output.resolve(), seconds)
            runs.append(run)
            findings += found
    return replace(report, findings=tuple(findings), official=tuple(runs))


def _run(
    checker: Checker, report: TreeReport, tree: Path, folder: Path, commit: str, output: Path, seconds: float
) -> tuple[OfficialRun, list[TreeFinding]]:
    stem = checker.rule.id.partition(".")[2]
    log = output / f"{stem}_checker_log.txt"
    log.unlink(missing_ok=True)
    command = [sys.executable, *checker.arguments, "--input", str(tree), "--version", report.rounds[0]]
    command += ["--csv", str(output / f"{stem}_summary.csv")]
    with Child(command, folder=folder, log=log, environment=build_child_environment()) as child:
        status = child.wait(seconds)
        if status is None:
            child.stop()
    text = log.read_text(encoding="utf-8", errors="replace")
    verdict = _SUMMARY.search(text)
    findings = list(_read_findings(checker, text.replace(f"{tree}/", "").splitlines(), log.name))
    run = OfficialRun(
        checker.name,
        commit,
        -1 if status is None else status,
        verdict["verdict"] if verdict else "crashed",
        "" if verdict else _explain_failure(text, status, seconds, report.findings),
        str(log),
        tuple(finding.complaint.found for finding in findings if not finding.cell),
    )
    return run, [finding for finding in findings if finding.cell]


def _read_findings(checker: Checker, lines: Sequence[str], log: str) -> Iterator[TreeFinding]:
    """Yield a finding for each ERROR line. A cell without a result gets a finding only if no line gives the reason."""
    reported: set[tuple[str, str]] = set()
    silent: list[tuple[int, str]] = []
    for number, line in enumerate(lines, start=1):
        found = _ERROR.match(line)
        if found is None or _SUMMARY.search(line):
            continue
        text = found["text"].strip()
        if _NO_RESULTS.match(text):
            silent.append((number, text))
            continue
        finding = _make_finding(checker, text, Place(log, number))
        reported.add((finding.submitter, finding.cell))
        yield finding
    for number, text in silent:
        finding = _make_finding(checker, text, Place(log, number))
        if not any(name == finding.submitter and finding.cell.startswith(other) for name, other in reported):
            yield finding


def _make_finding(checker: Checker, text: str, place: Place) -> TreeFinding:
    return TreeFinding(checker.rule, *find_cell(text), Complaint(place, text, "no error", severity=Severity.ERROR))


def find_cell(text: str) -> tuple[str, str]:
    """Return the (submitter, cell) that the paths in a message identify, or ("", "") if it contains no path."""
    found = _RESULT_PATH.search(text) or _SYSTEM_PATH.search(text)
    if found is None:
        return "", ""
    groups = found.groupdict()
    parts = [groups["division"], groups.get("system"), groups.get("benchmark"), groups.get("scenario")]
    return groups["submitter"], "/".join(part for part in parts if part)


def _explain_failure(text: str, status: int | None, seconds: float, findings: Sequence[TreeFinding]) -> str:
    """Return the checker's last lines, and the findings that are known to crash it."""
    if status is None:
        return f"it was stopped after {seconds:.0f} s"
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")
    if "No module named 'yaml'" in text:
        return "install PyYAML in the environment of reconcile: pip install pyyaml"
    fatal = [finding for finding in findings if finding.rule.id in _FATAL]
    ranked = sorted(fatal, key=lambda finding: _FATAL.index(finding.rule.id))
    if ranked:
        complaint = ranked[0].complaint
        return f"{last}; likely because of {complaint.place}: {complaint.found} ({ranked[0].rule.id})"
    return last

"""Run the official checker of Endpoints submissions (package endpoints-submission-cli) over a folder.

It runs in a child process of the Python that has it installed. Its classes are called directly, since its command line
queries the network for a newer version.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import astuple, replace

from reconciler.endpoints.tree.reading import find_submissions
from reconciler.errors import ReconcilerError
from reconciler.resource.rules import Rule, Severity
from reconciler.rules.programs import PublishedLists
from reconciler.storage.process import Child, build_child_environment
from reconciler.tree.findings import Complaint, OfficialRun, Place, TreeFinding, TreeReport

PACKAGE = "endpoints-submission-cli"
NAME = "submission-checker"
RULE = Rule("official.endpoints", "the official checker's message", (NAME,))
_LOG, _REPORT = "endpoints_checker_log.txt", "endpoints_checker.json"
_CODE = """
import sys
sys.path = sys.path[1:] if sys.path[0] == "" else sys.path  # the folder of its output; older interpreters know no -P
from importlib.metadata import version
from pathlib import Path
from submission_checker.checker import SubmissionChecker
print(version("endpoints-submission-cli"))
lists = {name: Path(path) for name, path in zip(("seed_sets_path", "approved_drafters_path"), sys.argv[3:]) if path}
Path(sys.argv[2]).write_text(SubmissionChecker(Path(sys.argv[1]), **lists).run().model_dump_json())
"""
_PLACE = re.compile(r"results/(?P<system>[^/]+)(?:/(?P<model>[^/]+)(?:/(?P<point>r\d+))?)?")
_SEVERITIES = {"ERROR": Severity.ERROR, "WARNING": Severity.WARNING}
_SECONDS = 600.0


def run_official_checker(
    report: TreeReport, path: Path, environment: Path, output: Path, lists: PublishedLists
) -> TreeReport:
    """Add the official checker's findings about the submission at ``path`` to the report. ``environment``: a virtual
    environment with the package; for any other folder, the running Python is used.

    Raises ReconcilerError if it is not installed, or if there are several submissions.
    """
    found = find_submissions(path)
    if len(found) != 1:
        fix = "the official checker takes one submission: pass its folder"
        raise ReconcilerError(f"{path} contains {len(found)} submissions", fix=fix)
    python = environment / "bin/python"
    command = [str(python.absolute()) if python.is_file() else sys.executable, "-c", _CODE]
    output.mkdir(parents=True, exist_ok=True)
    log, written = (output / _LOG).resolve(), (output / _REPORT).resolve()
    for file in (log, written):
        file.unlink(missing_ok=True)
    root = found[0].path.resolve()
    newer = [str(file.resolve()) if file else "" for file in astuple(lists)]
    with Child(
        [*command, str(root), str(written), *newer], folder=output, log=log, environment=build_child_environment()
    ) as child:
        status = child.wait(_SECONDS)
    text = log.read_text(encoding="utf-8", errors="replace")
    if "No module named 'submission_checker'" in text or "PackageNotFoundError" in text:
        fix = f"pip install {PACKAGE}, or pass a virtual environment with it: --official ENVIRONMENT"
        raise ReconcilerError(f"{PACKAGE} is not installed", fix=fix)
    if not written.is_file():
        last = next(iter(reversed(text.strip().splitlines())), "")
        run = OfficialRun(NAME, "", -1 if status is None else status, "crashed", last, str(log))
        return replace(report, official=(*report.official, run))
    results = json.loads(written.read_bytes()).get("results", [])
    findings = tuple(_read_findings(results, root, found[0].submitter))
    verdict = "has errors" if any(item.severity is Severity.ERROR for item in findings) else "looks OK"
    run = OfficialRun(NAME, text.strip().splitlines()[0], status or 0, verdict, output=str(written))
    return replace(report, findings=(*report.findings, *findings), official=(*report.official, run))


def _read_findings(results: list[dict[str, Any]], root: Path, submitter: str) -> Iterator[TreeFinding]:
    for result in results:
        severity = _SEVERITIES.get(str(result.get("severity")).upper())
        if severity is None:
            continue
        path = str(result.get("path") or "").removeprefix(f"{root}/").removeprefix(str(root))
        place = _PLACE.match(path)
        cell = "/".join(part for part in place.groups() if part) if place else ""
        found = f"{result.get('rule')}: {' '.join(str(result.get('message')).split())}"
        complaint = Complaint(Place(path), found, str(result.get("fix") or "see the rules"), severity=severity)
        yield TreeFinding(RULE, submitter, cell, complaint)

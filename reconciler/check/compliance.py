"""Rules for compliance tests: required tests, their files, their verdicts (submission checker: compliance)."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import PurePosixPath

from reconciler.check import cell_files
from reconciler.check.accuracy import read_metric_values
from reconciler.check.demands import NEW, OLD, OURS, Complaints
from reconciler.loadgen.log_files import (
    ACCURACY_LOG,
    ACCURACY_TEXT,
    BASELINE,
    COMPLIANCE,
    DETAIL,
    SUMMARY,
    VERIFY_ACCURACY,
)
from reconciler.resource.ruled_values import TestRules
from reconciler.resource.rules import rule
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.cell import Folder
from reconciler.tree.reading.view import CellView, RunView

_CHECK = f"{NEW}: compliance check"

_LISTED_ALONE = "the listed files only"
_RUN = "performance/run_1"
# The limit for a test that may fail its accuracy verdict if its score matches the accuracy run's.
_CHANGE = "most_accuracy_change"


@rule("compliance.missing", "every test that the benchmark needs", sources=(_CHECK, OLD))
def check_missing(view: CellView) -> Complaints:
    """The submission includes every compliance test that the round requires for the benchmark."""
    for test in view.tests:
        if test not in view.files.tests:
            place = Place(f"{view.files.compliance_folder.shown}/{test}")
            yield Complaint(place, "missing", f"{test}, which {view.official} needs", fix=f"run {test}")


@rule("compliance.files", "the files of a test", sources=(_CHECK, f"{OLD}: file lists"))
def check_files(view: CellView) -> Complaints:
    """Each test has the logs and verify files that the round lists for it."""
    for rules, folder in _list_present(view):
        wanted = [*rules.files, *(f"accuracy/{name}" for name in sorted(_list_accuracy_files(view, rules, folder)))]
        for place, names in _group_by_folder(folder, wanted):
            yield from cell_files.list_missing(place, names)


@rule("compliance.extra", "no other files next to a test's logs", sources=(_CHECK, f"{OLD}: file lists"))
def check_extra(view: CellView) -> Complaints:
    """The checkers reject unlisted files in the folders of a test's logs."""
    for rules, folder in _list_present(view):
        if rules.performance_checks:
            yield from cell_files.list_unlisted(folder / _RUN, {SUMMARY, DETAIL, ACCURACY_LOG}, _LISTED_ALONE)
        listed = _list_accuracy_files(view, rules, folder)
        if listed:
            yield from cell_files.list_unlisted(folder / "accuracy", listed, _LISTED_ALONE)


@rule("compliance.verdict", "the test is passed", sources=(_CHECK, OLD))
def check_verdicts(view: CellView) -> Complaints:
    """The verify files state that the test passed, or the test's score matches the accuracy run's."""
    for rules, folder in _list_present(view):
        for expected in rules.expected:
            read = view.files.read_text(folder, expected.file)
            lines = (read.value or "").splitlines()
            if read.value is None or expected.is_in(lines):
                continue
            if expected.file == VERIFY_ACCURACY and _CHANGE in rules.limits:
                yield from _check_fallback(view, rules, folder)
            else:
                place = Place(read.file, _find_line(lines, expected.texts[0]))
                fix = f"repeat {rules.name}, or the run it is compared with"
                yield Complaint(place, f"no line {expected.texts[0]}", expected.texts[0], fix=fix)


@rule("compliance.audit", "audit.config took part", sources=(OURS,))
def check_audit_present(view: CellView) -> Complaints:
    """The log has the line that LoadGen writes when it reads an audit.config. Without it, nothing was tested."""
    for run in list_compliance_runs(view):
        if run.log.audit is None:
            yield Complaint(
                Place(run.log.file),
                "LoadGen found no audit.config",
                f"a run with the audit.config of {run.name}",
                cause="the log is of another run, or audit.config was in another folder",
                fix=f"repeat {run.name}",
            )


def list_compliance_runs(view: CellView) -> Iterator[RunView]:
    """Yield the runs of required tests that must follow the rules for a performance run."""
    for rules, _ in _list_present(view):
        if rules.performance_checks and rules.name in view.test_views:
            yield view.test_views[rules.name]


def _list_present(view: CellView) -> Iterator[tuple[TestRules, Folder]]:
    for test in view.tests:
        if view.rules is not None and test in view.files.tests:
            yield view.rules.find_test(test, view.cell.scenario), view.files.tests[test]


def _list_accuracy_files(view: CellView, rules: TestRules, folder: Folder) -> set[str]:
    """Return the exact set of files required in the test's accuracy folder (older submission checker: file lists)."""
    if _CHANGE not in rules.limits:
        return set()
    passed = all(
        item.is_in((view.files.read_text(folder, item.file).value or item.texts[0]).splitlines())
        for item in rules.expected
        if item.file == VERIFY_ACCURACY
    )
    return {ACCURACY_LOG, ACCURACY_TEXT} | (set() if passed else {BASELINE, COMPLIANCE})


def _check_fallback(view: CellView, rules: TestRules, folder: Folder) -> Complaints:
    """For nondeterministic systems: the score on the audited samples must match the accuracy run's score on the same
    samples."""
    metrics = tuple(bar.metric for bar in view.rules.list_bars(view.cell.scenario)) if view.rules else ()
    texts = [view.files.read_text(folder / "accuracy", name) for name in (BASELINE, COMPLIANCE)]
    if any(text.value is None for text in texts):
        return  # missing files are separate findings
    ours, theirs = (read_metric_values(text.value or "", metrics) for text in texts)
    place, other = Place(texts[1].file), Place(texts[0].file)
    for name in metrics:
        before, after = ours.get(name), theirs.get(name)
        if not before or not after:
            yield Complaint(place, f"{name} is not stated in both files", "a value above 0 in each", other=other)
            return
        limit = rules.limits.get(f"{_CHANGE}_{name}", rules.limits[_CHANGE])
        spread, most = abs(1 - before / after) * 100, Decimal(str(limit.value))
        if spread > most:
            found = f"{name} {after}, {spread:.2f} % from {before}"
            yield Complaint(place, found, f"within {most} %", other=other, fix=f"repeat {rules.name}")
            return


def _group_by_folder(folder: Folder, wanted: list[str]) -> Iterator[tuple[Folder, list[str]]]:
    groups: dict[str, list[str]] = {}
    for path in map(PurePosixPath, wanted):
        groups.setdefault(str(path.parent), []).append(path.name)
    for parent, names in groups.items():
        yield folder if parent == "." else folder / parent, names


def _find_line(lines: list[str], wanted: str) -> int:
    """Return the 1-based number of the line that begins with the same word, or 0."""
    start = wanted.partition(" ")[0].lower()
    return next((n for n, line in enumerate(lines, 1) if line.lower().startswith(start)), 0)


COMPLIANCE_RULES = (check_missing, check_files, check_extra, check_verdicts, check_audit_present)

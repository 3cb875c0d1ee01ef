"""Rules of the compliance tests: which there must be, their files, their verdicts (submission checker: compliance)."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from reconciler.tree.check.accuracy import metric_values
from reconciler.tree.check.runs import NEW, OLD, OURS, Complaints
from reconciler.tree.findings import Complaint, Place, Rule
from reconciler.tree.reading.cell import ACCURACY_LOG, ACCURACY_TEXT, DETAIL, SUMMARY, Folder
from reconciler.tree.reading.view import CellView, RunView

VERIFY_ACCURACY, VERIFY_PERFORMANCE, VERIFY_LENGTH = (
    "verify_accuracy.txt",
    "verify_performance.txt",
    "verify_output_len.txt",
)
# The files of a test's folder by what it verifies, and the tests whose run must keep the rules of a performance run.
_VERDICTS = {
    "TEST01": (VERIFY_ACCURACY, VERIFY_PERFORMANCE),
    "TEST04": (VERIFY_PERFORMANCE,),
    "TEST06": (VERIFY_ACCURACY,),
    "TEST07": (VERIFY_ACCURACY,),
    "TEST08": (VERIFY_ACCURACY,),
    "TEST09": (VERIFY_LENGTH,),
}
WITH_RUN = ("TEST01", "TEST04")
_BASELINE, _COMPLIANCE = "baseline_accuracy.txt", "compliance_accuracy.txt"
_TOLERATED = {ACCURACY_LOG, "mlperf_log_trace.json", "results.json", ".gitkeep"}
_TEST06 = (
    ("first token check", ("First token check pass: True", "First token check pass: Skipped")),
    ("EOS check", ("EOS check pass: True",)),
    ("sample length check", ("Sample length check pass: True",)),
)
_PASS = "TEST PASS"  # noqa: S105


def missing(view: CellView) -> Complaints:
    for test in view.tests:
        if test not in view.files.tests:
            place = Place(f"{view.files.compliance_folder.shown}/{test}")
            yield Complaint(place, "missing", f"{test}, which {view.official} needs", fix=f"run {test}")


def files(view: CellView) -> Complaints:
    for test, folder in _present(view):
        wanted = [(folder, name) for name in _VERDICTS.get(test, ())]
        if test in WITH_RUN:
            wanted += [(folder / "performance/run_1", name) for name in (SUMMARY, DETAIL)]
        if test == "TEST01":
            wanted += [(folder / "accuracy", name) for name in (ACCURACY_LOG, ACCURACY_TEXT)]
            if _fallback(view, folder):
                wanted += [(folder / "accuracy", name) for name in (_BASELINE, _COMPLIANCE)]
        for place, names in _grouped(wanted):
            yield from _absent(place, names)


def extra(view: CellView) -> Complaints:
    for test, folder in _present(view):
        if test in WITH_RUN:
            yield from _extra(folder / "performance/run_1", {SUMMARY, DETAIL, *_TOLERATED})
        if test == "TEST01":
            allowed = {ACCURACY_LOG, ACCURACY_TEXT}
            yield from _extra(
                folder / "accuracy", allowed | ({_BASELINE, _COMPLIANCE} if _fallback(view, folder) else set())
            )


def accuracy_verdict(view: CellView) -> Complaints:
    """verify_accuracy.txt says PASS; TEST01 may fail it when its accuracy is that of the accuracy run."""
    for test, folder in _present(view):
        found = view.files.text(folder, VERIFY_ACCURACY)
        if VERIFY_ACCURACY not in _VERDICTS.get(test, ()) or found.value is None:
            continue
        lines = [line.strip() for line in found.value.splitlines()]
        if test == "TEST06":
            for name, accepted in _TEST06:
                if not any(line in lines for line in accepted):
                    yield Complaint(Place(found.file, _line_of(lines, name)), f"no passed {name}", accepted[0])
        elif test == "TEST01":
            yield from _fallback_verdict(view, folder, lines)
        elif not any(_PASS in line for line in lines):
            yield Complaint(Place(found.file, _line_of(lines, "TEST")), "no TEST PASS", _PASS, fix=f"repeat {test}")


def performance_verdict(view: CellView) -> Complaints:
    for test, folder in _present(view):
        for name in (VERIFY_PERFORMANCE, VERIFY_LENGTH):
            found = view.files.text(folder, name)
            if name in _VERDICTS.get(test, ()) and found.value is not None and _PASS not in found.value:
                lines = found.value.splitlines()
                place = Place(found.file, _line_of(lines, "TEST"))
                yield Complaint(place, "no TEST PASS", _PASS, fix=f"repeat {test}, or the performance run")


def audit_present(view: CellView) -> Complaints:
    """LoadGen's own mark that an audit.config took part; without it the test tested nothing."""
    for test, run in _runs(view):
        if run.log.audit is None:
            yield Complaint(
                Place(run.log.file),
                "LoadGen found no audit.config",
                f"a run with the audit.config of {test}",
                cause="the performance run's log was copied here, or audit.config lay in another folder",
                fix=f"repeat {test}",
            )


def compliance_runs(view: CellView) -> Iterator[RunView]:
    """The runs of required tests that must keep the rules of a performance run."""
    yield from (run for _, run in _runs(view))


def _runs(view: CellView) -> Iterator[tuple[str, RunView]]:
    for test in view.tests:
        if test in WITH_RUN and test in view.test_views:
            yield test, view.test_views[test]


def _present(view: CellView) -> Iterator[tuple[str, Folder]]:
    for test in view.tests:
        if test in view.files.tests:
            yield test, view.files.tests[test]


def _fallback(view: CellView, folder: Folder) -> bool:
    found = view.files.text(folder, VERIFY_ACCURACY).value
    return found is not None and _PASS not in [line.strip() for line in found.splitlines()]


def _fallback_verdict(view: CellView, folder: Folder, lines: list[str]) -> Complaints:
    """Not deterministic: the score on the audited samples must be that of the accuracy run on the same samples."""
    if _PASS in lines or view.rules is None:
        return
    metrics = tuple(bar.metric for bar in view.rules.bars(view.cell.scenario))
    texts = [view.files.text(folder / "accuracy", name) for name in (_BASELINE, _COMPLIANCE)]
    if any(text.value is None for text in texts):
        return
    ours, theirs = (metric_values(text.value or "", metrics) for text in texts)
    place, other = Place(texts[1].file), Place(texts[0].file)
    for name in metrics:
        before, after = ours.get(name), theirs.get(name)
        if not before or not after:
            yield Complaint(place, f"{name} is not stated in both files", "a value above 0 in each", other=other)
            return
        spread, most = abs(1 - before / after) * 100, _allowed(view.official, name)
        if spread > most:
            found = f"{name} {after}, {spread.quantize(Decimal('0.01'))} % from {before}"
            yield Complaint(place, found, f"within {most} %", other=other, fix="repeat TEST01")
            return


def _allowed(official: str, metric: str) -> Decimal:
    """Percent (submission checker: TEST01 in non-deterministic mode)."""
    if metric == "FID_SCORE":
        return Decimal(2)
    return Decimal("0.1") if "99.9" in official else Decimal(1)


def _grouped(wanted: list[tuple[Folder, str]]) -> Iterator[tuple[Folder, list[str]]]:
    groups: dict[Folder, list[str]] = {}
    for folder, name in wanted:
        groups.setdefault(folder, []).append(name)
    yield from groups.items()


def _absent(folder: Folder, names: list[str]) -> Complaints:
    there = set(folder.files())
    if not folder.exists:
        yield Complaint(Place(folder.shown), "missing", f"a folder with {', '.join(names)}")
        return
    for name in names:
        if name not in there:
            yield Complaint(Place(f"{folder.shown}/{name}"), "missing", name)


def _extra(folder: Folder, allowed: set[str]) -> Complaints:
    for name in folder.files():
        if name not in allowed:
            yield Complaint(Place(f"{folder.shown}/{name}"), f"a file {name}", "the listed files only", fix="remove it")


def _line_of(lines: list[str], start: str) -> int:
    """The 1-based line that begins so, 0 for none."""
    return next((n for n, line in enumerate(lines, 1) if line.lower().startswith(start.lower())), 0)


_CHECK = f"{NEW}: compliance check"
COMPLIANCE_RULES = (
    (Rule("compliance.missing", "every test that the benchmark needs", (_CHECK, OLD)), missing),
    (Rule("compliance.files", "the files of a test", (_CHECK, f"{OLD}: file lists")), files),
    (Rule("compliance.extra", "no other files beside a test's logs", (_CHECK, f"{OLD}: file lists")), extra),
    (Rule("compliance.accuracy", "the accuracy verdict", (_CHECK, OLD)), accuracy_verdict),
    (Rule("compliance.performance", "the performance verdict", (_CHECK, OLD)), performance_verdict),
    (Rule("compliance.audit", "audit.config took part", (OURS,)), audit_present),
)

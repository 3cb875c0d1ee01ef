"""The words of a verify file: two verdicts in one, and a check that was skipped where it is needed."""

from __future__ import annotations

import re

from reconciler.check.demands import OURS, Complaints
from reconciler.loadgen.log_files import VERIFY_ACCURACY, VERIFY_PERFORMANCE
from reconciler.resource.rules import Severity, applies, rule
from reconciler.rules.compliance.verdict import FAIL, PASS
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.files import Read
from reconciler.tree.reading.view import CellView
from reconciler.verify.stated_results import verify_stated

_CHECKED = re.compile(r"(?P<check>[A-Z][A-Za-z ]{1,40} check) pass: (?P<verdict>True|False|Skipped)", re.ASCII)
_FIRST = "First token check"
_PASSED, _SKIPPED = "check pass:", "Skipped"
_FIX = "run the verification of {} again, and publish all of its output"


@rule(
    "compliance.verdicts",
    "two verdicts in one file",
    sources=("compliance scripts", OURS),
    cause="verdict-without-figures",
    severity=Severity.WARNING,
)
def verify_one_verdict(view: CellView) -> Complaints:
    """A verify file says once whether a test is passed: none of the 3,071 published ones of v4.1 and v5.1 says both.
    The output of two verifications may have been put together, or that of a fallback, so that it is a warning.
    """
    for test, folder in view.files.tests.items():
        for name in (VERIFY_ACCURACY, VERIFY_PERFORMANCE):
            yield from _deny_second_verdict(test, view.files.read_text(folder, name))


def _deny_second_verdict(test: str, read: Read[str]) -> Complaints:
    text = read.value or ""
    if not (PASS in text and FAIL in text) and text.count(_PASSED) < 2:
        return
    seen: dict[str, tuple[int, str]] = {}
    for line, words in enumerate(map(str.strip, text.split("\n")), start=1):
        if words == PASS or words.startswith(FAIL):
            what, verdict = "TEST", PASS if words == PASS else FAIL
        elif found := _CHECKED.fullmatch(words):
            what, verdict = found["check"], found[0]
        else:
            continue
        first, said = seen.setdefault(what, (line, verdict))
        if said != verdict:
            yield Complaint(
                Place(read.file, line),
                verdict,
                f"{said}, as the same file states",
                cause="the output of two verifications, or an edited one",
                fix=_FIX.format(test),
                other=Place(read.file, first),
            )
            return


@applies(verify_stated.rule)
def verify_skipped(view: CellView) -> Complaints:
    """TEST06's script looks for first tokens in every scenario but Offline, in which they are not reported."""
    run = view.performance
    folder = view.files.tests.get("TEST06")
    if folder is None or run is None or run.log.scenario == "Offline" or view.cell.scenario == "Offline":
        return
    read = view.files.read_text(folder, VERIFY_ACCURACY)
    lines = (read.value or "").split("\n") if _SKIPPED in (read.value or "") else []
    for line, text in enumerate(lines, start=1):
        found = _CHECKED.fullmatch(text.strip())
        if found and found["check"] == _FIRST and found["verdict"] == _SKIPPED:
            yield Complaint(
                Place(read.file, line),
                f"{_FIRST} skipped",
                f"a check of the first tokens, which a {run.log.scenario} run reports",
                cause="the verification ran for Offline, or was edited",
                fix=_FIX.format("TEST06"),
                mechanism="verdict-without-figures",
            )
            return


VERDICT_WORD_RULES = (verify_one_verdict, verify_skipped)

"""Statements of a verify file of TEST07, TEST08 or TEST09, against the verdict at its end. The official scripts and our
own verdicts print the figures that they compare.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal

from msgspec import Struct

from reconciler.check.demands import OURS, Complaints
from reconciler.loadgen.log_files import VERIFY_ACCURACY
from reconciler.resource.rules import Premise, Severity, rule
from reconciler.rules.compliance.test09 import OUTPUT_LENGTH
from reconciler.rules.compliance.verdict import FAIL, PASS
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.view import CellView

Stated = Mapping[str, tuple[int, Decimal]]  # figure → its line, its value
_N = r"(\d{1,18}(?:\.\d{1,18})?)"
_ROUNDED = Decimal("0.01")  # means are printed with two digits


class _File(Struct, frozen=True):
    """``figures``: how each is on a line of its own; ``needed``: the one without which nothing was compared, in
    words."""

    name: str
    figures: Mapping[str, re.Pattern[str]]
    needed: tuple[str, str]
    deny: Callable[[Stated, Mapping[str, Decimal]], Iterator[tuple[str, str, str]]]


@rule(
    "compliance.stated",
    "a pass that its own figures deny",
    sources=("compliance scripts", OURS),
    cause="contradicted-verdict",
    premises=(Premise("The file has one verdict, so that its figures are those of the pass."),),
)
def verify_stated(view: CellView) -> Complaints:
    """The scripts of TEST07, TEST08 and TEST09 print what they compared before the verdict: a score below its
    threshold, samples that differ, a mean length outside its bounds is no pass, and a pass without any of these a
    warning. The round's own bounds apply to the closed division only. v6.0 published 128 of these tests, whose
    figures all fit their verdicts. TEST06's script skips the first tokens in Offline alone: all 337 published verdicts
    of other scenarios checked them.
    """
    for test, file in _FILES.items():
        if test not in view.files.tests:
            continue
        read = view.files.read_text(view.files.tests[test], file.name)
        lines = [text.strip() for text in (read.value or "").splitlines()]
        if PASS not in lines:
            continue
        stated, passed = _read(lines, file.figures), lines.index(PASS) + 1
        several = sum(line == PASS or line.startswith(FAIL) for line in lines) > 1
        for figure, found, wanted in file.deny(stated, _read_limits(view, test)):
            yield Complaint(
                Place(read.file, passed),
                f"{PASS} with {found}",
                wanted,
                cause="a verdict that was edited, or the output of two verifications in one file",
                fix=f"run the verification of {test} again and publish all of its output",
                other=Place(read.file, stated[figure][0]),
                doubt="the file has several verdicts, and the figures may be those of another" if several else "",
            )
        if file.needed[0] not in stated:
            yield Complaint(
                Place(read.file, passed),
                f"{PASS} without {file.needed[1]}",
                "what the verification of the test prints before its verdict",
                cause="a verdict that was written by hand, or cut",
                fix=f"run the verification of {test} again and publish all of its output",
                severity=Severity.WARNING,
                mechanism="verdict-without-figures",
            )


def _read(lines: list[str], figures: Mapping[str, re.Pattern[str]]) -> Stated:
    """Read the last of each: a scorer's report, which may say anything, comes before them."""
    found = {}
    for number, line in enumerate(lines, start=1):
        for name, shape in figures.items():
            if match := shape.fullmatch(line):
                found[name] = number, Decimal(next(filter(None, match.groups())))
    return found


def _read_limits(view: CellView, test: str) -> Mapping[str, Decimal]:
    """Read the limits of the closed division, where the round has the test; the open one may set its own."""
    if view.rules is None or not view.ruleset.is_known or view.division != "closed":
        return {}
    try:
        limits = view.rules.find_test(test, view.cell.scenario).limits
    except KeyError:
        return {}
    return {name: Decimal(str(limit.value)) for name, limit in limits.items()}


def _deny_accuracy(stated: Stated, _: Mapping[str, Decimal]) -> Iterator[tuple[str, str, str]]:
    if {"score", "threshold"} <= stated.keys() and stated["score"][1] < stated["threshold"][1]:
        yield "score", f"an accuracy of {stated['score'][1]}", f"at least its threshold of {stated['threshold'][1]}"


def _deny_matches(stated: Stated, _: Mapping[str, Decimal]) -> Iterator[tuple[str, str, str]]:
    for name, words in (
        ("differing", "samples that differ"),
        ("missing", "samples that the accuracy run does not have"),
    ):
        if name in stated and stated[name][1]:
            yield name, f"{stated[name][1]} {words}", "none"
    if "matched" in stated and not stated["matched"][1]:
        yield "matched", "no sample of the accuracy run", "at least one"


def _deny_lengths(stated: Stated, limits: Mapping[str, Decimal]) -> Iterator[tuple[str, str, str]]:
    if "mean" not in stated:
        return
    mean, found = stated["mean"][1], f"a mean of {stated['mean'][1]} tokens"
    of_round = [limits.get(f"{which}_mean_tokens") for which in ("least", "most")]
    bounds = [stated[which][1] if which in stated else None for which in ("least", "most")]
    ends = [stated[which][1] if which in stated else None for which in ("shortest", "longest")]
    for (least, most), whose in ((bounds, "its bounds"), (of_round, "the bounds of the round"), (ends, "its answers")):
        if (least is not None and mean < least - _ROUNDED) or (most is not None and mean > most + _ROUNDED):
            yield "mean", found, f"one within {whose}: {least} to {most}"


def _shape(*lines: str) -> re.Pattern[str]:
    return re.compile("|".join(line.replace("N", _N) for line in lines), re.ASCII)


_FILES = {
    "TEST07": _File(
        VERIFY_ACCURACY,
        {
            "score": _shape("Accuracy score: N", "accuracy: N"),
            "threshold": _shape("Accuracy threshold: N", "threshold: N"),
        },
        ("score", "the accuracy of its answers"),
        _deny_accuracy,
    ),
    "TEST08": _File(
        VERIFY_ACCURACY,
        {
            "entries": _shape("num_acc_log_entries = N", "answers in the accuracy run: N"),
            "matched": _shape("num_matched = N"),
            "missing": _shape("num_unmatched = N", "not in the accuracy run: N"),
            "differing": _shape("num_ne_mismatch = N", "differing: N"),
        },
        ("entries", "the number of entries that were compared"),
        _deny_matches,
    ),
    "TEST09": _File(
        OUTPUT_LENGTH,
        {
            "mean": _shape("Mean output tokens: N", "mean tokens: N"),
            "shortest": _shape("Min output tokens: N", r"shortest and longest: N and \d+"),
            "longest": _shape("Max output tokens: N", r"shortest and longest: \d+ and N"),
            "least": _shape("Min threshold: N", r"bounds: N to \S+"),
            "most": _shape("Max threshold: N", r"bounds: \S+ to N"),
        },
        ("mean", "the mean length of its answers"),
        _deny_lengths,
    ),
}

STATED_RULES = (verify_stated,)

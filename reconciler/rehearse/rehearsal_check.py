"""Findings in the check of a rehearsal's tree: those that must be there, because a rehearsal is short, and those that
must not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from reconciler.tree.findings import TreeReport

# A rehearsal has neither the round's durations nor its number of samples, nor answers as long as those of its model.
SHORT = frozenset(
    {
        "run.duration",
        "run.samples",
        "run.samples-per-query",
        "run.early-stopping",
        "accuracy.samples",
        "accuracy.extra-samples",
        "accuracy.lengths",
    }
)


class RehearsalCheck(Struct, frozen=True):
    """``expected``: rule → how often it was broken, by nature. ``unexpected``: the report without those."""

    expected: Mapping[str, int]
    unexpected: TreeReport


def judge_rehearsal(report: TreeReport, *, earlier: bool = False) -> RehearsalCheck:
    """``earlier``: it has benchmarks that the round has no more, as it says when it plans."""
    natural = SHORT | {"benchmark.known"} if earlier else SHORT
    short = Counter(finding.rule.id for finding in report.findings if finding.rule.id in natural)
    others = tuple(finding for finding in report.findings if finding.rule.id not in natural)
    return RehearsalCheck(dict(sorted(short.items())), replace(report, findings=others))

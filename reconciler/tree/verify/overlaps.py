"""Runs of one system that were made at the same time, by LoadGen's own clock: each slows the other, or there were two
machines of the kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from reconciler.tree.check.demands import OURS
from reconciler.tree.findings import Complaint, Place, Rule, Severity, TreeFinding
from reconciler.tree.reading.values import find_at, read_end, read_start
from reconciler.tree.reading.view import CellView
from reconciler.tree.verify.runs import list_runs

OVERLAP = Rule("runs.overlap", "were two runs of one system made at the same time?", (OURS,), Severity.NOTE)
_LEAST = 60.0  # seconds that two runs have in common: less may be clocks of two machines


@dataclass(frozen=True, slots=True)
class Span:
    """When a run was made, in seconds since 1970. ``digest``: of its log, which several cells may share."""

    submitter: str
    cell: str
    run: str
    digest: str
    began: float
    ended: float
    place: Place

    @property
    def system(self) -> tuple[str, str]:
        return self.submitter, "/".join(self.cell.split("/")[:2])


def list_spans(view: CellView) -> Iterator[Span]:
    for run in list_runs(view):
        start, end = read_start(run.log), read_end(run.log)
        if start is not None and end is not None:
            submitter, cell = view.files.submitter.submitter, str(view.cell)
            place = find_at(run.log, "power_begin")
            yield Span(submitter, cell, run.name, run.run.digest, start.timestamp(), end.timestamp(), place)


def verify_overlaps(spans: Iterable[Span]) -> Iterator[TreeFinding]:
    """One finding for each system: the first two runs that overlap, one of them a performance run, and how many do."""
    systems: dict[tuple[str, str], dict[str, Span]] = {}
    for span in spans:
        systems.setdefault(span.system, {}).setdefault(span.digest, span)
    for (submitter, system), runs in systems.items():
        found = list(_pairs(sorted(runs.values(), key=lambda span: (span.began, span.cell, span.run))))
        if found:
            first, second = found[0]
            common = min(first.ended, second.ended) - second.began
            more = f", the first of {len(found)} such pairs" if len(found) > 1 else ""
            complaint = Complaint(
                second.place,
                f"the {second.run} run of {second.cell} during the {first.run} run of {first.cell}, "
                f"for {common:.0f} s{more}",
                "one run at a time, or as many machines of this kind",
                other=first.place,
            )
            yield TreeFinding(OVERLAP, submitter, system, complaint)


def _pairs(runs: list[Span]) -> Iterator[tuple[Span, Span]]:
    for number, first in enumerate(runs):
        for second in runs[number + 1 :]:
            if second.began >= first.ended:
                break
            overlapping = min(first.ended, second.ended) - second.began
            if overlapping > _LEAST and "performance" in (first.run, second.run):
                yield first, second

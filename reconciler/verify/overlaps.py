"""Runs of one system that were made at the same time, by LoadGen's own clock: each slows the other, or there were two
machines of the kind."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from msgspec import Struct, field

from reconciler.check.demands import OURS
from reconciler.loadgen import keys
from reconciler.resource.rules import question
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.values import find_at, read_end, read_start
from reconciler.tree.reading.view import CellView
from reconciler.tree.rule_engine import About
from reconciler.verify.runs import list_runs

_LEAST = 60.0  # seconds that two runs have in common: less may be clocks of two machines


class Span(Struct, frozen=True):
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
            place = find_at(run.log, keys.POWER_BEGIN)
            yield Span(submitter, cell, run.name, run.run.digest, start.timestamp(), end.timestamp(), place)


@question("runs.overlap", "were two runs of one system made at the same time?", sources=(OURS,))
def verify_overlaps(spans: Iterable[Span]) -> Iterator[tuple[About, Complaint]]:
    """Two runs of one system had a minute or more in common by LoadGen's own clocks, one of them a performance run; one
    finding for each system. There may have been two machines of the kind: a question.
    """
    systems: dict[tuple[str, str], dict[str, Span]] = {}
    for span in spans:
        systems.setdefault(span.system, {}).setdefault(span.digest, span)
    for (submitter, system), runs in systems.items():
        ordered = sorted(runs.values(), key=lambda span: (span.began, span.cell, span.run))
        pair, count = _find_pairs(ordered)
        if pair is not None:
            first, second = pair
            common = min(first.ended, second.ended) - second.began
            more = f", the first of {count} such pairs" if count > 1 else ""
            complaint = Complaint(
                second.place,
                f"the {second.run} run of {second.cell} during the {first.run} run of {first.cell}, "
                f"for {common:.0f} s{more}",
                "one run at a time, or as many machines of this kind",
                other=first.place,
            )
            yield About(submitter, system), complaint


def _find_pairs(runs: list[Span]) -> tuple[tuple[Span, Span] | None, int]:
    """The pair whose first run began first, and how many pairs there are; none of them is listed, since all of a
    thousand runs may overlap. ``runs``: as they began."""
    every, timed = _Open(), _Open()
    best: tuple[int, Span] | None = None
    count = 0
    for number, run in enumerate(runs):
        others = every if run.run == "performance" else timed
        others.close(run.began + _LEAST)
        if run.ended > run.began + _LEAST and others.ends:
            count += len(others.ends)
            if best is None or others.first < best[0]:
                best = others.first, run
        every.add(number, run)
        if run.run == "performance":
            timed.add(number, run)
    return (runs[best[0]], best[1]) if best is not None else None, count


class _Open(Struct):
    """Runs that are not over: their ends, the earliest first, and their numbers as they began, of which only the first
    need be one that is not over."""

    ends: list[float] = field(default_factory=list)
    begun: deque[tuple[int, float]] = field(default_factory=deque)

    def add(self, number: int, run: Span) -> None:
        heappush(self.ends, run.ended)
        self.begun.append((number, run.ended))

    def close(self, at: float) -> None:
        """Let go of what ended by then; later calls come with later times."""
        while self.ends and self.ends[0] <= at:
            heappop(self.ends)
        while self.begun and self.begun[0][1] <= at:
            self.begun.popleft()

    @property
    def first(self) -> int:
        return self.begun[0][0]

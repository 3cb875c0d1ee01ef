"""Runs of one system at one time: which pair is named, and how many there are, however many runs a tree has."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from reconciler.tree.findings import Place, TreeFinding
from reconciler.tree.rule_engine import compare_cells
from reconciler.verify.cross_cell import Span, list_spans, verify_overlaps
from tests.unit.tree.small_cells import DETAIL, RUN, log, small_cell

LENGTHS = (-20, 30, 60, 61, 100, 300, 2000)


def make_span(number: int, run: str, began: float, ended: float) -> Span:
    return Span("ACME", f"closed/box/resnet/{number:05}", run, str(number), began, ended, Place(f"{number}"))


def find(spans: list[Span]) -> TreeFinding | None:
    found = list(compare_cells(verify_overlaps, spans))
    assert len(found) <= 1, "one finding for each system"
    return found[0] if found else None


def list_pairs(spans: list[Span]) -> list[tuple[Span, Span]]:
    """By looking at every two of them."""
    ordered = sorted(spans, key=lambda span: (span.began, span.cell))
    return [
        (one, two)
        for at, one in enumerate(ordered)
        for two in ordered[at + 1 :]
        if min(one.ended, two.ended) - two.began > 60 and "performance" in (one.run, two.run)
    ]


def test_the_first_pair_is_named_and_all_are_counted() -> None:
    for seed in range(200):
        compare_with_every_pair(random.Random(seed))


def compare_with_every_pair(chance: random.Random) -> None:
    spans = []
    for number in range(chance.randrange(12)):
        began = float(chance.randrange(0, 1000, 10))
        run = chance.choice(("performance", "accuracy", "TEST01"))
        spans.append(make_span(number, run, began, began + chance.choice(LENGTHS)))
    pairs, finding = list_pairs(spans), find(spans)
    if not pairs:
        assert finding is None
        return
    assert finding is not None
    first, second = pairs[0]
    complaint = finding.complaint
    assert (complaint.other, complaint.place) == (first.place, second.place)
    counted = re.search(r"the first of (\d+)", complaint.found)
    assert (int(counted[1]) if counted else 1) == len(pairs)


def test_ten_thousand_runs_at_one_time_are_counted() -> None:
    many = 10_000
    finding = find([make_span(number, "performance", float(number) / 100, 1e6) for number in range(many)])
    assert finding is not None
    assert f"the first of {many * (many - 1) // 2} " in finding.complaint.found


def test_runs_of_two_systems_or_submitters_and_one_log_in_two_cells_are_apart() -> None:
    first, second = make_span(1, "performance", 0, 300), make_span(2, "performance", 0, 300)
    assert len(list(compare_cells(verify_overlaps, [first, second]))) == 1
    for other in (
        replace(second, cell="closed/other/resnet/2"),
        replace(second, cell="open/box/resnet/2"),
        replace(second, submitter="BCME"),
        replace(second, digest="1"),
    ):
        assert not list(compare_cells(verify_overlaps, [first, other])), other


def test_of_runs_that_began_at_once_the_first_by_name_is_named_first() -> None:
    spans = [make_span(number, "performance", 0, 300) for number in (2, 1)]
    (reported,) = compare_cells(
        verify_overlaps, [*spans, replace(spans[1], run="accuracy", digest="x", place=Place("x"))]
    )
    assert (reported.complaint.other, reported.complaint.place) == (Place("x"), Place("1"))


def test_spans_are_read_by_the_clock_of_each_run(tmp_path: Path) -> None:
    begin, end = ("power_begin", "01-02-2026 10:00:00.000"), ("power_end", "01-02-2026 10:00:05.500")
    runs = {
        RUN: (("a", 1), begin, end),
        "accuracy": (begin,),
        f"TEST01/{RUN}": (end,),
        f"TEST04/{RUN}": (begin, ("power_end", "later")),
    }
    files = {f"{folder}/{DETAIL}": log(*lines) for folder, lines in runs.items()}
    (span,) = list_spans(small_cell(tmp_path, files))
    began = datetime(2026, 1, 2, 10, tzinfo=UTC).timestamp()
    assert (span.submitter, span.cell, span.run) == ("Acme", "closed/sys1/resnet/Offline", "performance")
    assert (span.began, span.ended) == (began, began + 5.5)
    assert span.place == Place(f"closed/Acme/results/sys1/resnet/Offline/{RUN}/{DETAIL}", 2)
    assert span.system == ("Acme", "closed/sys1")
    assert span.digest

"""Runs of one system at one time: which pair is named, and how many there are, however many runs a tree has."""

from __future__ import annotations

import random
import re

from reconciler.tree.findings import Place, TreeFinding
from reconciler.tree.rule_engine import compare_cells
from reconciler.verify.cross_cell import Span, verify_overlaps

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

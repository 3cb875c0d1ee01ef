"""Comparisons on a scale that shows all of them, and findings with the worst first."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.page.history_view import arrange_comparison, arrange_recent
from reconciler.page.site import arrange_findings

SIDE = {"cell": "closed/box/resnet50/Offline", "value": "1", "unit": "samples/s", "count": 0, "validity": "VALID"}


def compare(
    *ratios: float | None, one: dict[str, Any] = SIDE, other: dict[str, Any] = SIDE, names: tuple[str, str] = ("a", "b")
) -> dict[str, Any]:
    pairs = [{"one": one, "other": other, "ratio": ratio, "per_accelerator": None} for ratio in ratios]
    empty: dict[str, Any] = {"alone": {}, "stale": {}, "curves": [], "invalid": []}
    return arrange_comparison({"names": list(names), "pairs": pairs, **empty})


def test_the_largest_ratio_fills_the_scale_and_as_much_less_the_other_side() -> None:
    found = compare(16, 4, 1, 0.25, 0.0, None)
    assert [pair["bar"] for pair in found["pairs"]] == [50.0, 25.0, 0.0, -25.0, None, None]
    assert found["reach"] == "16"


def test_a_lower_latency_is_better() -> None:
    side = {**SIDE, "unit": "ms"}
    found = compare(4, 0.25, one=side, other=side)
    assert [pair["bar"] for pair in found["pairs"]] == [-50.0, 50.0]


@pytest.mark.parametrize(
    ("unit", "change", "shown"),
    [
        ("samples/s", 0.05, "+5.0 % better"),
        ("samples/s", -0.05, "-5.0 % worse"),
        ("ms", -0.05, "-5.0 % better"),
        ("ms", 0.05, "+5.0 % worse"),
        ("ms", -0.0001, "+0.0 %"),
        ("acc", 0.05, "+5.0 %"),
        ("ms", None, ""),
    ],
)
def test_a_change_for_better_or_worse(unit: str, change: float | None, shown: str) -> None:
    (row,) = arrange_recent({"results": [{"value": "1", "unit": unit, "change": change}]})
    assert row["change"] == shown


def test_two_cells_are_named_by_what_they_share() -> None:
    other = {**SIDE, "cell": "closed/other/bert-99/Offline"}
    found = compare(1, other=other, names=("box", "other"))
    assert found["pairs"][0]["cell"] == "closed / resnet50 → bert-99 / Offline"


def test_a_small_difference_is_not_blown_up() -> None:
    (pair,) = compare(1.01)["pairs"]
    assert 0 < pair["bar"] < 5


def test_errors_come_first_and_lead_to_their_cells() -> None:
    usual = {"file": "f", "line": 0, "submitter": "", "rule": "r", "cell": SIDE["cell"]}
    found = [{**usual, "severity": severity} for severity in ("note", "error", "warning")]
    report = {"rounds": [], "clean": False, "counts": {}, "results": [], "causes": found, "gaps": {"reasons": {}}}
    arranged = arrange_findings({**report, "findings": found}, {SIDE["cell"]})
    (group,) = arranged["groups"]
    assert group["subject"] == SIDE["cell"]
    for rows in (group["findings"], arranged["causes"]):
        assert [row["severity"] for row in rows] == ["error", "warning", "note"]


@pytest.mark.parametrize(("each", "is_open"), [(4, True), (40, False)])
def test_findings_are_grouped_by_cell_and_many_are_folded(each: int, is_open: bool) -> None:
    usual = {"file": "f", "line": 1, "submitter": "A", "rule": "r"}
    cells = ("open/box/a/Offline", "open/box/b/Offline")
    notes = [{**usual, "severity": "note", "cell": cells[0]} for _ in range(each)]
    found = [*notes, {**usual, "severity": "error", "cell": cells[1]}, {**usual, "severity": "note", "cell": ""}]
    report = {"rounds": [], "clean": False, "counts": {}, "results": [], "causes": [], "gaps": {"reasons": {}}}
    arranged = arrange_findings({**report, "findings": found}, set(cells))
    groups = [(group["subject"], len(group["findings"])) for group in arranged["groups"]]
    assert groups == [(cells[1], 1), (cells[0], each), ("the tree", 1)], "the worst first"
    assert arranged["all_open"] is is_open

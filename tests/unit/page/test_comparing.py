"""Comparisons on a scale that shows all of them, and findings with the worst first."""

from __future__ import annotations

from typing import Any

from reconciler.page.history_view import arrange_comparison
from reconciler.page.site import arrange_findings

SIDE = {"cell": "closed/box/resnet50/Offline", "value": "1", "unit": "samples/s", "count": 0, "validity": "VALID"}


def compare(*ratios: float | None) -> dict[str, Any]:
    pairs = [{"one": SIDE, "other": SIDE, "ratio": ratio, "per_accelerator": None} for ratio in ratios]
    return arrange_comparison({"names": ["a", "b"], "pairs": pairs, "alone": {}, "curves": []})


def test_the_largest_ratio_fills_the_scale_and_as_much_less_the_other_side() -> None:
    found = compare(16, 4, 1, 0.25, 0.0, None)
    assert [pair["bar"] for pair in found["pairs"]] == [50.0, 25.0, 0.0, -25.0, None, None]
    assert (found["least"], found["reach"]) == ("0.0625", "16")


def test_a_small_difference_is_not_blown_up() -> None:
    (pair,) = compare(1.01)["pairs"]
    assert 0 < pair["bar"] < 5


def test_errors_come_first_and_lead_to_their_cells() -> None:
    usual = {"file": "f", "line": 0, "submitter": "", "rule": "r", "cell": SIDE["cell"]}
    found = [{**usual, "severity": severity} for severity in ("note", "error", "warning")]
    report = {"rounds": [], "clean": False, "counts": {}, "results": [], "causes": found, "gaps": {"reasons": {}}}
    arranged = arrange_findings({**report, "findings": found}, {SIDE["cell"]})
    for rows in (arranged["findings"], arranged["causes"]):
        assert [row["severity"] for row in rows] == ["error", "warning", "note"]

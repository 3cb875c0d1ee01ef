"""States of cells in the matrix, and how it is laid out."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.page.matrix_view import NOTHING, UnderWay, arrange_matrix, list_under_way

CELL = "closed/box/resnet50/Offline"
RATE = {"value": "800", "unit": "samples/s"}


def entry(cell: str = CELL, reason: str = "InSync", **changes: Any) -> dict[str, Any]:
    """A cell that is ready, unless ``reason`` says why it is not."""
    ready = reason == "InSync"
    conditions = [
        {"type": name, "status": str(ready), "reason": reason, "message": ""} for name in ("Performed", "Ready")
    ]
    measured = {"metric": RATE, "accuracy": None, "efficiency": None, "validity": "VALID", "margin": None}
    named = {"cell": cell, "ready": ready, "steps": 0, "marks": [], "accelerators": 1, "published": None, "last": None}
    return {**named, "conditions": conditions, **measured, **changes}


def arrange(*entries: dict[str, Any], under_way: UnderWay = NOTHING) -> dict[str, Any]:
    named = {"submission": "acme", "round": "v6.1", "looked": "", "findings": [], "curves": []}
    return arrange_matrix({"cells": list(entries), **named}, under_way)


def squares(matrix: dict[str, Any]) -> list[list[list[str]]]:
    lines = (line for division in matrix["divisions"] for line in division["lines"])
    return [[[row["cell"] for row in square] for square in line["squares"]] for line in lines]


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (entry(), "ready"),
        (entry(reason="NotRecorded", metric=None, steps=4), "unmeasured"),
        (entry(reason="PreviousAttemptFailed", metric=None, steps=4), "failed"),
        (entry(reason="PreviousAttemptFailed", steps=1), "failed"),
        (entry(reason="AccuracyBelow"), "failed"),
        (entry(reason="Invalid", validity="INVALID"), "invalid"),
        (entry(reason="InputChanged", steps=2), "stale"),
        (entry(reason="ArtifactMissing"), "stale"),
    ],
)
def test_state_of_a_cell(found: dict[str, Any], state: str) -> None:
    matrix = arrange(found)
    assert [name for name, _, _ in matrix["states"]] == [state]
    assert matrix["ready"] == (state == "ready")


def test_the_pass_in_progress_comes_before_what_was_measured() -> None:
    live = {"attempts": [{"cell": CELL}], "next": [{"cell": "closed/box/resnet50/Server"}, {"cell": ""}], "jobs": []}
    under_way = list_under_way(live)
    matrix = arrange(entry(), entry("closed/box/resnet50/Server"), under_way=under_way)
    assert [(name, number) for name, number, _ in matrix["states"]] == [("running", 1), ("waiting", 1)]


def test_benchmarks_are_lines_and_systems_columns() -> None:
    cells = ["closed/a/x/Offline", "closed/b/x/Server", "closed/a/x/Server", "closed/b/y/Offline", "open/a/x/Offline"]
    matrix = arrange(*map(entry, cells))
    assert squares(matrix) == [[[cells[0], cells[2]], [cells[1]]], [[], [cells[3]]], [[cells[4]]]]
    assert [division["systems"] for division in matrix["divisions"]] == [[("a", 2, 2), ("b", 2, 2)], [("a", 1, 1)]]


def test_rate_of_one_accelerator() -> None:
    latency = entry("closed/box/resnet50/SingleStream", metric={"value": "2", "unit": "ms"}, accelerators=8)
    matrix = arrange(entry(accelerators=8), latency)
    (line,) = matrix["divisions"][0]["lines"]
    assert [(row["metric"], row["each"]) for row in line["squares"][0]] == [("800 /s", "100 /s"), ("2 ms", "")]
    assert matrix["shared"]
    assert not arrange(entry(accelerators=1))["shared"]


@pytest.mark.parametrize(
    ("metric", "asked", "shown"),
    [
        (RATE, "80", ("125 %", "80")),
        ({"value": "800", "unit": "tokens/s"}, "80", ("", "80")),
        ({"value": "2", "unit": "ms"}, "1.5 ms", ("75 %", "1.5 ms")),
        (None, "80", ("", "80")),
    ],
)
def test_a_result_is_compared_with_published_ones_of_the_chip(
    metric: dict[str, Any] | None, asked: str, shown: tuple[str, str]
) -> None:
    published = {"value": asked, "source": "v5.1 closed/X/results/y"}
    matrix = arrange(entry(metric=metric, accelerators=8, published=published), entry("closed/other/resnet50/Offline"))
    rows = [row for line in matrix["divisions"][0]["lines"] for square in line["squares"] for row in square]
    assert [(row["percent"], row["asked"]) for row in rows] == [shown, ("", "")]
    assert published["source"] in rows[0]["notes"]
    assert matrix["divisions"][0]["columns"] == {"box": ["percent"] if shown[0] else [], "other": []}


@pytest.mark.parametrize(
    ("headroom", "shown"), [(48.2, ("+48 %", "")), (1.96, ("+2.0 %", "thin")), (-3, ("-3.0 %", "missed"))]
)
def test_margin_of_a_result(headroom: float, shown: tuple[str, str]) -> None:
    matrix = arrange(entry(margin={"name": "p99 TTFT", "headroom": headroom}), entry("closed/other/resnet50/Offline"))
    rows = [row for line in matrix["divisions"][0]["lines"] for square in line["squares"] for row in square]
    assert [(row["margin"], row["room"]) for row in rows] == [shown, ("", "")]
    assert "p99 TTFT" in rows[0]["notes"]
    assert matrix["divisions"][0]["columns"] == {"box": ["margin"], "other": []}


def test_the_last_result_is_shown_while_none_counts() -> None:
    last = {**RATE, "validity": "VALID"}
    matrix = arrange(entry(reason="InputChanged", steps=2, metric=None, last=last), entry("closed/box/bert-99/Offline"))
    rows = [row for line in matrix["divisions"][0]["lines"] for square in line["squares"] for row in square]
    assert [(row["metric"], row["counts"]) for row in rows] == [("800 /s", False), ("800 /s", True)]


@pytest.mark.parametrize("state", ["stale", "waiting", "invalid"])
def test_the_number_of_an_invalid_run_says_so_in_every_state(state: str) -> None:
    found = entry(reason="Invalid", validity="INVALID")
    if state == "stale":
        found = entry(reason="InputChanged", steps=2, metric=None, validity=None, last={**RATE, "validity": "INVALID"})
    under_way = UnderWay(waiting=frozenset([CELL] if state == "waiting" else []))
    matrix = arrange(found, entry("closed/box/resnet50/Server"), under_way=under_way)
    rows = [row for line in matrix["divisions"][0]["lines"] for square in line["squares"] for row in square]
    shown = [(row["state"], row["metric"], row["invalid"], "INVALID" in row["notes"]) for row in rows]
    assert shown == [(state, "800 /s", "INVALID", True), ("ready", "800 /s", "", False)]

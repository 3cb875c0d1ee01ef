from __future__ import annotations

import pytest

from reconciler.errors import ReconcilerError
from reconciler.plan.select import find_cell
from reconciler.resource.kinds import Cell

CELLS = [
    Cell(division, system, benchmark, scenario)
    for division in ("closed", "open")
    for system in ("h200", "h200x8")
    for benchmark in ("resnet", "bert-99")
    for scenario in ("Offline", "Server")
    if (division, benchmark) != ("open", "bert-99")
]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("closed/h200/resnet/Offline", "closed/h200/resnet/Offline"),
        ("CLOSED/h200/bert-99/server/", "closed/h200/bert-99/Server"),
        ("h200/bert-99/Server", "closed/h200/bert-99/Server"),
        ("open/h200/Server", "open/h200/resnet/Server"),
        ("open/*x8/*/off*", "open/h200x8/resnet/Offline"),
        ("x8/bert-99/s*", "closed/h200x8/bert-99/Server"),
    ],
    ids=["full", "case and slash", "part", "scattered parts", "glob", "glob of a part"],
)
def test_finds_one(text: str, name: str) -> None:
    assert str(find_cell(text, CELLS)) == name


def test_a_whole_part_wins_over_a_longer_one() -> None:
    """h200 is not h200x8."""
    with pytest.raises(ReconcilerError) as caught:
        find_cell("open/h200", CELLS)
    assert "matches 2 cells:\n  open/h200/resnet/Offline\n  open/h200/resnet/Server" in str(caught.value)


def test_lists_candidates_but_not_all_of_many() -> None:
    many = [Cell("open", "box", f"b{number}", "Offline") for number in range(30)]
    with pytest.raises(ReconcilerError, match="… and 18 more"):
        find_cell("box", many)


@pytest.mark.parametrize(("text", "near"), [("closed/h200/resnett/Offline", "resnet"), ("ofline", "Offline")])
def test_names_the_nearest(text: str, near: str) -> None:
    with pytest.raises(ReconcilerError, match="no cell matches") as caught:
        find_cell(text, CELLS)
    assert near in caught.value.fix


def test_nothing_near() -> None:
    with pytest.raises(ReconcilerError) as caught:
        find_cell("zzzzzz", CELLS)
    assert caught.value.fix == "`reconcile status` lists the cells"

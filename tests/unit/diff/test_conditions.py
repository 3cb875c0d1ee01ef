"""Conditions of cells, as the status shows them."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.diff.conditions import is_about, summarise_cells
from reconciler.diff.difference import compare
from reconciler.observed.state import Observed
from reconciler.resource.kinds import Address, Kind
from tests.unit.diff.outline import EXPECTED, outline
from tests.unit.diff.simulated import Wish, World, desire

NET = Wish()
RUN = Address(Kind.RUN, f"{NET.cell}/performance")
WRONG = ("measurements.json", "edited")
# Of a tree that was rendered: what is wrong with its files.
TREES: dict[str, dict[str, Any]] = {
    "no tree is here": {},
    "a tree that fits": {"tree_present": True},
    "a file that was edited": {"tree_present": True, "tree": {str(NET.cell): (WRONG,)}},
    "three files that are wrong": {
        "tree_present": True,
        "tree": {str(NET.cell): (WRONG, ("a", "missing"), ("b", "x"))},
    },
    "a file of another cell": {"tree_present": True, "tree": {"open/box/net/Server": (WRONG,)}},
}


@pytest.mark.parametrize("name", TREES)
def test_a_tree_that_differs_is_not_rendered(name: str) -> None:
    desired, world = desire([NET]), World()
    world.settle(desired)
    observed = Observed(**TREES[name])
    found = compare(desired, world.recorded, observed, frozenset())
    cells = summarise_cells(desired, world.recorded, observed, found)
    assert outline(found, cells) == EXPECTED["trees"][name]


def test_a_step_that_is_blocked_says_what_stops_it() -> None:
    desired, world = desire([NET]), World()
    found = compare(desired, world.recorded, Observed())
    (cell,) = summarise_cells(desired, world.recorded, Observed(), found, {RUN: "no meter"})
    told = {condition.type: condition.message for condition in cell.conditions}
    assert told["Performed"] == told["Valid"] == "blocked: no meter"
    assert "blocked" not in told["Built"] + told["Accurate"] + told["Rendered"]


@pytest.mark.parametrize(
    ("where", "about"),
    [
        (str(NET.cell), True),
        (f"{NET.cell}/TEST01", True),
        (f"Run:{NET.cell}/performance", True),
        (f"Result:{NET.cell}", True),
        (f"{NET.cell}s", False),
        (f"Later:{NET.cell}", False),
        ("open/box/net/Server", False),
        (f"Run:{NET.cell}s", False),
        ("", False),
    ],
)
def test_a_finding_is_about_the_cell_that_it_names(where: str, about: bool) -> None:
    assert is_about(where, NET.cell) is about

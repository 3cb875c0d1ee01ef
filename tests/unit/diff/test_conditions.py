"""The conditions of cells after each story of the difference, as the status shows them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.diff.change import Finding
from reconciler.diff.conditions import is_about, summarise_cells
from reconciler.diff.difference import compare
from reconciler.observed.state import Observed
from reconciler.resource.conditions import CONDITIONS, CellStatus
from reconciler.resource.kinds import Address, Cell, Kind
from tests.said import hold, read_sections
from tests.unit.diff import test_compliance, test_stories
from tests.unit.diff.simulated import Wish, World, desire

SAID = Path(__file__).with_name("said_of_conditions.txt")
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


def describe(cells: tuple[CellStatus, ...]) -> Iterator[str]:
    for cell in cells:
        shown = (cell.metric, cell.accuracy, cell.efficiency)
        figures = "; ".join(" ".join(pair) if pair else "nothing" for pair in shown)
        marks = ", ".join(cell.marks) or "no marks"
        yield f"{cell.cell} is {cell.ready}: {figures}; {cell.validity or 'no validity'}; {marks}"
        assert tuple(condition.type for condition in cell.conditions) == CONDITIONS
        yield from (f"{c.type} {c.status}: {c.reason} {c.message}".strip() for c in cell.conditions)


def tell(name: str) -> Iterator[str]:
    world, chapter = World(), name.partition(": ")[2]
    if name.startswith("test: "):
        desired, forced = test_compliance.STORIES[chapter](world)
        observed = Observed()
    elif name.startswith("tree: "):
        desired, forced = desire([NET]), frozenset[Address]()
        world.settle(desired)
        observed = Observed(**TREES[chapter])
    else:
        desired, observed, forced = test_stories.STORIES[name](world)
    found = compare(desired, world.recorded, observed, forced)
    yield from describe(summarise_cells(desired, world.recorded, observed, found))


NAMES = [*test_stories.STORIES, *(f"test: {name}" for name in test_compliance.STORIES), *(f"tree: {n}" for n in TREES)]


@pytest.mark.parametrize("name", NAMES)
def test_conditions_follow_from_what_happened(name: str) -> None:
    hold(SAID, name, tell(name))


def test_every_text_is_of_a_story() -> None:
    assert list(read_sections(SAID)) == NAMES


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


@pytest.mark.parametrize(
    ("kind", "where", "wrong"),
    [
        ("Invalid", f"Run:{NET.cell}/performance", ["Valid"]),
        ("AccuracyTooLow", f"Score:{NET.cell}", ["Accurate"]),
        ("TooLow", f"Score:{NET.cell}", ["Accurate"]),
        ("InaccurateScore", str(NET.cell), ["Accurate"]),
        ("AuditFails", f"Verdict:{NET.cell}/TEST01", []),  # no test is asked for
        ("Invalid", str(Cell("open", "box", "net", "Server")), []),
    ],
)
def test_a_finding_is_the_reason_of_the_condition_that_it_is_about(kind: str, where: str, wrong: list[str]) -> None:
    desired, world = desire([NET]), World()
    world.settle(desired)
    found = compare(desired, world.recorded, Observed())
    held = type(found)(
        **{
            **{n: getattr(found, n) for n in found.__struct_fields__},
            "findings": (Finding(kind, where, "why", "fix"), Finding(kind, where, "why not", "fix")),
        }
    )
    (cell,) = summarise_cells(desired, world.recorded, Observed(), held)
    told = {c.type: (c.reason, c.message) for c in cell.conditions if c.message == "why"}
    assert [name for name in told if name != "Ready"] == wrong
    assert all(value == (kind, "why") for value in told.values())
    own = where.partition(":")[2] or where
    assert (str(cell.ready) == "False") is own.startswith(str(NET.cell))

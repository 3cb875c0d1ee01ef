"""What the power supplies of a measured system can give."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.check.engine import check_tree
from reconciler.resource.rules import Severity
from reconciler.tree.findings import TreeFinding

TREE = Path("closed/Acme")


FILE_NAMEPLATE = TREE / "systems/sys1_power.yaml"


GOOD_NAMEPLATE = "Server:\n  Min PSUs Needed: 1\n  PSUs:\n  - PowerCapacityWatts: 1200\n"


def find(root: Path, name: str = "v6.1") -> list[TreeFinding]:
    return [found for found in check_tree(root, round_name=name).findings if found.rule.id == "system.nameplate"]


@pytest.fixture
def measured(tree_of: Callable[[str], Path]) -> Path:
    """A tree in which the power of one run was measured."""
    root = tree_of("closed")
    (root / TREE / "results/sys1/resnet/Offline/performance/power").mkdir()
    return root


def test_without_a_power_measurement_no_one_asks(tree_of: Callable[[str], Path]) -> None:
    assert not find(tree_of("closed"))


def test_missing_nameplate_is_a_warning(measured: Path) -> None:
    (found,) = find(measured)
    assert (found.severity, found.complaint.place.file) == (Severity.WARNING, str(FILE_NAMEPLATE))


@pytest.mark.parametrize("way", ["file", "field"])
def test_either_way_to_say_it_is_enough(measured: Path, way: str) -> None:
    if way == "file":
        (measured / FILE_NAMEPLATE).write_text(GOOD_NAMEPLATE)
    else:
        description = measured / TREE / "systems/sys1.json"
        said = json.loads(description.read_text())
        description.write_text(json.dumps({**said, "system_power_capacity": 1200}))
    assert not find(measured)


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("Server: [", Severity.ERROR),
        ("- Server\n", Severity.ERROR),
        (GOOD_NAMEPLATE.replace(": 1\n", ": 3\n"), Severity.ERROR),
        (GOOD_NAMEPLATE.replace("PSUs", "Supplies"), Severity.WARNING),
    ],
)
def test_file_that_shows_nothing_is_found(measured: Path, text: str, severity: Severity) -> None:
    (measured / FILE_NAMEPLATE).write_text(text)
    (found,) = find(measured)
    assert found.severity is severity


def test_earlier_round_asks_for_none(measured: Path) -> None:
    assert not find(measured, "v6.0")

"""systems/<system>.json: its fields, its names, its network, and what its power supplies can give."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.check.demands import Complaints
from reconciler.check.engine import check_tree
from reconciler.check.systems import (
    check_described,
    check_fields,
    check_nameplate,
    check_names,
    check_network,
    check_readable,
)
from reconciler.resource.ruled_values import NetworkRules, SystemField
from reconciler.resource.rules import Severity
from reconciler.tree.findings import TreeFinding
from reconciler.tree.reading.places import V6, SubmitterPlace
from reconciler.tree.reading.system import SubmitterFiles
from tests.unit.tree.small_cells import say

FIELDS = (
    SystemField("status", filled=True, one_of=("available", "preview")),
    SystemField("system_type", filled=True, one_of=("edge", "datacenter")),
    SystemField("nodes", filled=True, integer=True),
    SystemField("notes"),
)


GOOD: Mapping[str, object] = {"status": "available", "system_type": "edge", "nodes": "2", "notes": ""}


FILE = "closed/Acme/systems/sys1.json"


def system(
    root: Path, fields: object = None, division: str = "closed", exempt: tuple[str, ...] = (), **more: Any
) -> Any:
    """``fields``: a document, one field a line from the second on, or the text of the file; None: no file."""
    place = SubmitterPlace(division, "Acme", root / "Acme", f"{division}/Acme", V6)
    path = root / "Acme/systems/sys1.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    if fields is not None:
        path.write_text(fields if isinstance(fields, str) else json.dumps(fields, indent=1))
    ruleset = SimpleNamespace(
        system_fields=FIELDS,
        network=NetworkRules(("is_network", "network_type", "network_media")),
        power_fields=("system_power_capacity",),
        binds=lambda _, demand: demand not in exempt,
    )
    vars(ruleset).update(more)
    return SimpleNamespace(submitter=place, system=SubmitterFiles(place).read_system("sys1"), ruleset=ruleset)


def find_wrong(check: Callable[[Any], Complaints], *args: Any, **options: Any) -> list[str]:
    """The file is left out."""
    place = f"{options.get('division', 'closed')}/Acme/systems/sys1.json"
    return [line.replace(place, "").lstrip(": ") for line in say(check(system(*args, **options)))]


def test_a_system_is_described_by_an_object(tmp_path: Path) -> None:
    assert say(check_described(system(tmp_path / "a"))) == [FILE]
    assert not list(check_readable(system(tmp_path / "a")))
    assert not list(check_described(system(tmp_path / "b", "{")))
    (broken,) = say(check_readable(system(tmp_path / "b", '{\n"a": ')))
    assert broken == f"{FILE}:2"
    for check in (check_described, check_readable):
        assert not list(check(system(tmp_path / "c", {})))
    for check in (check_fields, check_names, check_network, check_nameplate):
        assert not list(check(system(tmp_path / "b", "{")))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, []),
        ({"notes": 0}, []),
        ({"status": "Available"}, []),
        ({"status": ""}, ["2"]),
        ({"status": 0}, ["2"]),
        ({"status": False}, ["2"]),
        ({"status": "soon"}, ["2"]),
        ({"status": 5}, ["2"]),
        ({"system_type": "Edge"}, ["3"]),
        ({"nodes": 2}, []),
        ({"nodes": " 2 "}, []),
        ({"nodes": "two"}, ["4"]),
        ({"nodes": "2.0"}, ["4"]),
        ({"nodes": 2.5}, ["4"]),
        ({"nodes": True}, ["4"]),
        ({"nodes": ""}, ["4"]),
        ({"status": "soon", "nodes": "-1"}, None),
    ],
)
def test_a_field_has_a_value_of_its_kind(tmp_path: Path, changed: Mapping[str, object], said: list[str] | None) -> None:
    both = ["2", "4"]
    assert find_wrong(check_fields, tmp_path, {**GOOD, **changed}) == (both if said is None else said)


def test_fields_that_are_missing_and_numbers_in_words_where_they_are_tolerated(tmp_path: Path) -> None:
    found = find_wrong(check_fields, tmp_path, {})
    assert found == [*("" for name in ("status", "system_type", "nodes")), ""]
    mild = find_wrong(check_fields, tmp_path, {**GOOD, "nodes": "N/A", "status": "soon"}, exempt=("whole_numbers",))
    assert mild == ["2", "warning :4"]


NETWORK = {"network_type": "x", "network_media": "y", "is_network": "True"}


@pytest.mark.parametrize(
    ("division", "fields", "said"),
    [
        ("network", NETWORK, []),
        ("network", {**NETWORK, "is_network": True}, ["4"]),
        ("network", {**NETWORK, "is_network": "no"}, ["4"]),
        ("network", {**NETWORK, "network_media": ""}, ["4"]),
        ("network", {"network_type": "x"}, [""]),
        ("network", {}, [""]),
        ("closed", {}, []),
        ("closed", {"is_network": "false"}, ["2"]),
        ("open", {**NETWORK, "is_network": "false"}, []),
        ("open", NETWORK, []),
        ("open", {"is_network": "false"}, ["2"]),
        ("open", {"is_network": False}, ["2"]),
        ("open", {"is_network": None}, ["2"]),
    ],
)
def test_only_systems_of_the_network_division_describe_a_network(
    tmp_path: Path, division: str, fields: Mapping[str, object], said: list[str]
) -> None:
    assert find_wrong(check_network, tmp_path, fields, division=division) == said


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

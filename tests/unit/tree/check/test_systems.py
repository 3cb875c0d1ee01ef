"""systems/<system>.json: its fields, its names, its network, and what its power supplies can give."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.mlperf.rules.values import NetworkRules, SystemField
from reconciler.tree.check.demands import Complaints
from reconciler.tree.check.systems import (
    check_described,
    check_fields,
    check_nameplate,
    check_names,
    check_network,
    check_readable,
)
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
    return SimpleNamespace(submitter=place, system=SubmitterFiles(place).system("sys1"), ruleset=ruleset)


def tell(check: Callable[[Any], Complaints], *args: Any, **options: Any) -> list[str]:
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
def test_each_field_has_a_value_of_its_kind(
    tmp_path: Path, changed: Mapping[str, object], said: list[str] | None
) -> None:
    both = ["2", "4"]
    assert tell(check_fields, tmp_path, {**GOOD, **changed}) == (both if said is None else said)


def test_fields_that_are_missing_and_numbers_in_words_where_they_are_tolerated(tmp_path: Path) -> None:
    found = tell(check_fields, tmp_path, {})
    assert found == [*("" for name in ("status", "system_type", "nodes")), ""]
    mild = tell(check_fields, tmp_path, {**GOOD, "nodes": "N/A", "status": "soon"}, exempt=("whole_numbers",))
    assert mild == ["2", "warning :4"]


NETWORK = {"network_type": "x", "network_media": "y", "is_network": "True"}


@pytest.mark.parametrize(
    ("division", "fields", "said"),
    [
        ("network", NETWORK, []),
        ("network", {**NETWORK, "is_network": True}, []),
        ("network", {**NETWORK, "is_network": "no"}, ["4"]),
        ("network", {**NETWORK, "network_media": ""}, ["4"]),
        ("network", {"network_type": "x"}, [""]),
        ("network", {}, [""]),
        ("closed", {}, []),
        ("closed", {"is_network": "false"}, ["2"]),
        ("open", {"is_network": "false"}, []),
        ("open", {"is_network": False}, ["2"]),
        ("open", {"is_network": None}, ["2"]),
    ],
)
def test_only_systems_of_the_network_division_describe_a_network(
    tmp_path: Path, division: str, fields: Mapping[str, object], said: list[str]
) -> None:
    assert tell(check_network, tmp_path, fields, division=division) == said

"""systems/<system>.json: its fields, its names, its network, and what its power supplies can give."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.check.demands import Complaints
from reconciler.check.systems import (
    SYSTEM_RULES,
    check_described,
    check_fields,
    check_nameplate,
    check_names,
    check_network,
    check_readable,
)
from reconciler.resource.ruled_values import NetworkRules, SystemField
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
    cause = "because: the folder under results/ and the description have different names"
    assert say(check_described(system(tmp_path / "a"))) == [
        f"{FILE}: missing; wanted a description of the system results/sys1; {cause}"
    ]
    assert not list(check_readable(system(tmp_path / "a")))
    assert not list(check_described(system(tmp_path / "b", "{")))
    (broken,) = say(check_readable(system(tmp_path / "b", '{\n"a": ')))
    assert broken.startswith(f"{FILE}:2: ")
    assert broken.endswith("; wanted a JSON object")
    for check in (check_described, check_readable):
        assert not list(check(system(tmp_path / "c", {})))
    for check in (check_fields, check_names, check_network, check_nameplate):
        assert not list(check(system(tmp_path / "b", "{")))


TEXT = "wanted a value, as text: the number 0 counts as empty"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, []),
        ({"notes": 0}, []),
        ({"status": "Available"}, []),
        ({"status": ""}, [f"2: status is empty; {TEXT}"]),
        ({"status": 0}, [f"2: status is 0; {TEXT}"]),
        ({"status": False}, [f"2: status is false; {TEXT}"]),
        ({"status": "soon"}, ["2: status is soon; wanted one of available, preview"]),
        ({"status": 5}, ["2: status is 5; wanted one of available, preview"]),
        ({"system_type": "Edge"}, ["3: system_type is Edge; wanted one of edge, datacenter"]),
        ({"nodes": 2}, []),
        ({"nodes": " 2 "}, []),
        ({"nodes": "two"}, ["4: nodes is two; wanted a whole number as text"]),
        ({"nodes": "2.0"}, ["4: nodes is 2.0; wanted a whole number as text"]),
        ({"nodes": 2.5}, ["4: nodes is 2.5; wanted a whole number as text"]),
        ({"nodes": True}, ["4: nodes is true; wanted a whole number as text"]),
        ({"nodes": ""}, [f"4: nodes is empty; {TEXT}"]),
        ({"status": "soon", "nodes": "-1"}, None),
    ],
)
def test_each_field_has_a_value_of_its_kind(
    tmp_path: Path, changed: Mapping[str, object], said: list[str] | None
) -> None:
    both = [
        "2: status is soon; wanted one of available, preview",
        "4: nodes is -1; wanted a whole number as text",
    ]
    assert tell(check_fields, tmp_path, {**GOOD, **changed}) == (both if said is None else said)


def test_fields_that_are_missing_and_numbers_in_words_where_they_are_tolerated(tmp_path: Path) -> None:
    found = tell(check_fields, tmp_path, {})
    assert found == [
        *(f"no field {name}; wanted a value" for name in ("status", "system_type", "nodes")),
        "no field notes; wanted the field, empty or not",
    ]
    mild = tell(check_fields, tmp_path, {**GOOD, "nodes": "N/A", "status": "soon"}, exempt=("whole_numbers",))
    assert mild == [
        "2: status is soon; wanted one of available, preview",
        "warning :4: nodes is N/A; wanted a whole number as text",
    ]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"division": "closed", "submitter": "Acme"}, []),
        ({"division": "closed", "submitter": "ACME"}, []),
        ({"division": "Closed", "submitter": "Acme"}, ["2: division is Closed; wanted closed, as the folder is named"]),
        ({"division": "open", "submitter": "Bcme"}, None),
        ({"division": "", "submitter": None}, []),
        ({"submitter": 5}, ["2: submitter is 5; wanted Acme, as the folder is named"]),
    ],
)
def test_division_and_submitter_are_those_of_the_folders(
    tmp_path: Path, fields: Mapping[str, object], said: list[str] | None
) -> None:
    both = [
        "2: division is open; wanted closed, as the folder is named",
        "3: submitter is Bcme; wanted Acme, as the folder is named",
    ]
    assert tell(check_names, tmp_path, fields) == (both if said is None else said)


NETWORK = {"network_type": "x", "network_media": "y", "is_network": "True"}
OUTSIDE = "wanted no such field outside the network division; to mend: leave the field out"


@pytest.mark.parametrize(
    ("division", "fields", "said"),
    [
        ("network", NETWORK, []),
        ("network", {**NETWORK, "is_network": True}, []),
        ("network", {**NETWORK, "is_network": "no"}, ['4: is_network is no; wanted "true" in the network division']),
        (
            "network",
            {**NETWORK, "network_media": ""},
            ["4: no field network_media; wanted every field that describes the network"],
        ),
        (
            "network",
            {"network_type": "x"},
            ["no field is_network and 1 more; wanted every field that describes the network"],
        ),
        ("network", {}, ["no field is_network and 2 more; wanted every field that describes the network"]),
        ("closed", {}, []),
        ("closed", {"is_network": "false"}, [f"2: is_network is false; {OUTSIDE}"]),
        ("open", {"is_network": "false"}, []),
        ("open", {"is_network": False}, [f"2: is_network is false; {OUTSIDE}"]),
        ("open", {"is_network": None}, [f"2: is_network is nothing; {OUTSIDE}"]),
    ],
)
def test_only_systems_of_the_network_division_describe_a_network(
    tmp_path: Path, division: str, fields: Mapping[str, object], said: list[str]
) -> None:
    assert tell(check_network, tmp_path, fields, division=division) == said


PLATE = "closed/Acme/systems/sys1_power.yaml"
SUPPLIES = "Server:\n  Min PSUs Needed: 1\n  PSUs:\n  - PowerCapacityWatts: 1200\n"
MISSING = f"warning {PLATE}: missing; wanted what the power supplies can give, here or as system_power_capacity of "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, f"{MISSING}systems/sys1.json"),
        (SUPPLIES, ""),
        (SUPPLIES.replace("1200", "x"), f"{PLATE}: a power supply has no PowerCapacityWatts; wanted PSUs with "),
        ("- 1\n", f"{PLATE}: it holds a list, not a mapping; wanted a YAML mapping of components"),
        (
            "Server: {}\n",
            f"warning {PLATE}: no component with PSUs and Min PSUs Needed; wanted at least one, as in the template",
        ),
    ],
)
def test_what_power_supplies_can_give_is_stated_where_power_was_measured(
    tmp_path: Path, text: str | None, said: str
) -> None:
    measured = tmp_path / "Acme/results/sys1/resnet/Offline/performance/power"
    if text is not None:
        (tmp_path / "Acme/systems").mkdir(parents=True)
        (tmp_path / "Acme/systems/sys1_power.yaml").write_text(text)
    assert not list(check_nameplate(system(tmp_path, GOOD)))
    measured.mkdir(parents=True)
    found = say(check_nameplate(system(tmp_path, GOOD)))
    assert [line for line in found if not line.startswith(said)] == []
    assert bool(found) is bool(said)
    assert not list(check_nameplate(system(tmp_path, {**GOOD, "system_power_capacity": 0})))
    assert not list(check_nameplate(system(tmp_path, GOOD, power_fields=())))


def test_rules_of_a_description_by_their_ids() -> None:
    assert [(rule.id, check) for rule, check in SYSTEM_RULES] == [
        ("system.missing", check_described),
        ("system.readable", check_readable),
        ("system.fields", check_fields),
        ("system.names", check_names),
        ("system.network", check_network),
        ("system.nameplate", check_nameplate),
    ]

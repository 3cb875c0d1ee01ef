"""A system's name, its description and its measurements against each other."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.storage.documents import parse_json_object
from reconciler.tree.findings import Place
from reconciler.tree.reading.files import Read
from reconciler.tree.reading.system import SystemFile
from reconciler.verify.systems import verify_accelerators, verify_category, verify_retraining


def describe(name: str, **fields: object) -> Any:
    """One field a line, from the second."""
    document = parse_json_object(json.dumps(fields, indent=1).encode())
    return SimpleNamespace(system=SystemFile(name, Read(f"systems/{name}.json", document)))


@pytest.mark.parametrize(
    ("name", "each", "nodes", "processors", "amount"),
    [
        ("8xH100", 8, 1, 2, ""),
        ("8xH100", "8", "1", "2", ""),
        ("H100x8", 8, 1, 2, ""),
        ("16xH100", 8, 2, 2, ""),
        ("2xXeon_8xH100", 8, 1, 2, ""),
        ("4xGB200", 8, 4, 2, ""),  # nodes
        ("2xXeon", 0, 1, 2, ""),  # processors
        ("8xH100", 4, 1, 2, "8"),
        ("rack_H100x72", 8, 8, 2, "72"),
        ("16xH100-8xH200", 4, 1, 2, "8 or 16"),
        ("H100-80GBx8", 4, 1, 2, "8"),
        ("gx3_box", 8, 1, 2, ""),
        ("8xh100", 4, 1, 2, ""),
        ("1234xH100", 4, 1, 2, ""),
        ("box", 4, 1, 2, ""),
        ("8xH100", None, 1, 2, ""),
        ("8xH100", 4, None, 2, ""),
    ],
)
def test_number_in_a_name_is_that_of_accelerators_nodes_or_processors(
    name: str, each: object, nodes: object, processors: object, amount: str
) -> None:
    view = describe(name, accelerators_per_node=each, number_of_nodes=nodes, host_processors_per_node=processors)
    found = [(reported.place, reported.wanted.partition(",")[0]) for reported in verify_accelerators(view)]
    assert found == ([(Place(f"systems/{name}.json", 2), amount)] if amount else [])


def test_number_before_the_name_of_the_processor_counts_processors() -> None:
    fields = {"accelerators_per_node": 8, "number_of_nodes": 11, "host_processors_per_node": 2}
    view = describe("87xMI999X_22xACME_9999F", **fields, host_processor_model_name="Some ACME 9999F")
    (found,) = verify_accelerators(view)
    assert found.wanted.startswith("87")
    assert not list(verify_accelerators(describe("3xACME", **fields, host_processor_model_name="Some ACME 9999F")))


@pytest.mark.parametrize(
    ("division", "allowed", "reported"), [("closed", False, True), ("closed", True, False), ("open", False, False)]
)
def test_results_are_of_benchmarks_that_the_system_can_have(division: str, allowed: bool, reported: bool) -> None:
    view = describe("box", division="x", system_type="edge")
    view.submitter, view.allowed, view.official = SimpleNamespace(division=division), allowed, "dlrm-v2-99"
    view.ruleset, view.place = SimpleNamespace(round="v6.1"), Place("closed/box/dlrm")
    found = [(complaint.place, complaint.other) for complaint in verify_category(view)]
    assert found == [(Place("systems/box.json", 3), view.place)] * reported


def measure(text: str | None, division: str = "closed", rehearsal: bool = False) -> Any:
    document = None if text is None else parse_json_object(text.encode())
    read = Read("measurements.json", document)
    return SimpleNamespace(files=SimpleNamespace(measurements=read), division=division, rehearsal=rehearsal)


@pytest.mark.parametrize("said", ["yes", "Y", " True "])
def test_closed_division_allows_no_retraining(said: str) -> None:
    text = json.dumps({"a": 1, "retraining": said}, indent=1)
    (found,) = verify_retraining(measure(text))
    assert found.place == Place("measurements.json", 3)
    assert not list(verify_retraining(measure(text, "open")))


@pytest.mark.parametrize("text", [None, "{}", '{"retraining": "no"}', '{"retraining": true}', '{"retraining": "N"}'])
def test_what_does_not_say_that_it_was_retrained_is_none(text: str | None) -> None:
    assert not list(verify_retraining(measure(text)))

"""What a declared submission lacks: as the submission rules demand it, not as the program's own tables do."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from reconciler.desired.requirements import find_missing_cells, list_needed_pins, list_notes
from reconciler.resource.inputs import Origin, Pin, PinKind, Value
from reconciler.resource.kinds import Cell
from reconciler.rules.rounds import load_ruleset
from reconciler.spec.declared import Declared, DeclaredSystem
from tests.unit.desired.test_inputs import HERE, RULES, declare


def entering(division: str, category: str, official: str, *scenarios: str) -> Declared:
    first = declare(benchmark__official=official)
    cells = tuple(replace(first.cells[0], cell=Cell(division, "box", "mine", scenario)) for scenario in scenarios)
    system = DeclaredSystem(
        "box", {"system.category": Value(category, HERE), "system.status": Value("available", HERE)}, {}
    )
    return replace(first, cells=cells, systems={"box": system})


# Of the rules' section "Benchmarks": the scenarios that a submission to the closed division must have.
@pytest.mark.parametrize(
    ("category", "official", "entered", "missing"),
    [
        ("edge", "resnet", ["Offline"], ["SingleStream", "MultiStream"]),
        ("edge", "resnet", ["SingleStream", "MultiStream", "Offline"], []),
        ("datacenter", "resnet", ["Offline"], ["Server"]),
        ("datacenter", "resnet", ["Server"], ["Offline"]),
        ("edge", "bert-99", ["SingleStream"], ["Offline"]),
        ("edge", "3d-unet-99.9", ["Offline"], ["SingleStream"]),
        ("datacenter", "3d-unet-99.9", ["Offline"], []),
    ],
)
def test_scenarios_that_the_closed_division_demands_are_missing_until_entered(
    category: str, official: str, entered: list[str], missing: list[str]
) -> None:
    found = find_missing_cells(entering("closed", category, official, *entered), load_ruleset("v5.0"))
    assert sorted(found) == sorted(f"closed/box/mine/{scenario}" for scenario in missing)


def test_a_benchmark_that_the_round_does_not_have_demands_no_scenario() -> None:
    assert find_missing_cells(entering("closed", "edge", "of-my-own", "Offline"), RULES) == ()


def test_each_system_and_benchmark_has_scenarios_of_its_own() -> None:
    one = entering("closed", "edge", "resnet", "Offline", "SingleStream")
    bert = entering("closed", "edge", "bert-99", "Offline").cells[0]
    other = replace(bert, cell=Cell("closed", "box", "other", "Offline"))
    away = replace(one.cells[0], cell=Cell("closed", "rack", "mine", "MultiStream"))
    both = replace(one, cells=(*one.cells, other, away), systems={**one.systems, "rack": one.systems["box"]})
    assert sorted(find_missing_cells(both, load_ruleset("v5.0"))) == [
        "closed/box/mine/MultiStream",
        "closed/box/other/SingleStream",
        "closed/rack/mine/Offline",
        "closed/rack/mine/SingleStream",
    ]


def test_entries_of_one_benchmark_that_share_its_folder_are_complete_together() -> None:
    one = entering("closed", "edge", "resnet", "Offline", "SingleStream")
    other = replace(one.cells[0], cell=Cell("closed", "box", "other", "MultiStream"))
    assert find_missing_cells(replace(one, cells=(*one.cells, other)), load_ruleset("v5.0")) == ()
    absent = replace(one, cells=(one.cells[0], other))
    assert find_missing_cells(absent, load_ruleset("v5.0")) == ("closed/box/mine/SingleStream",)


def needed(**changes: object) -> tuple[str, ...]:
    return list_needed_pins(declare(**changes), RULES)


def test_what_the_spec_pins_is_not_asked_of_the_world() -> None:
    assert needed() == ()
    assert len(needed(engine__version=None)) == 1
    assert needed(engine__version=None, engine__backend="null") == ()
    assert len(needed(model__path="/lab/net.onnx", dataset__path="/lab/images")) == 2
    digests = {"model__sha256": "0" * 64, "dataset__sha256": "1" * 64}
    assert needed(model__path="/lab/net.onnx", dataset__path="/lab/images", **digests) == ()


@pytest.mark.parametrize("part", ["harness.service", "harness.build"])
def test_code_and_configuration_of_a_service_or_a_build_are_asked_of_the_world(part: str) -> None:
    command = {"engine__backend": None, "harness__command": ["run"]}
    own = {f"{part}.code": "/lab/serve", f"{part}.configs": ("a.yaml", "b.yaml")}
    assert needed(**command, **own) == ()  # no one runs them
    cell = "open/box/digits/Server"
    named = {f"{part}.code.sha256": "/lab/serve", f"{part}.config.0": "a.yaml", f"{part}.config.1": "b.yaml"}
    pins = {Pin(PinKind.SOURCE, name, cell, at) for name, at in named.items()}
    assert set(needed(**command, **own, **{f"{part}.command": ["serve"]})) == pins
    whole = {"harness.code": "/lab/all", f"{part}.command": ["serve"]}  # what a part does not say, the harness does
    pins = {Pin(PinKind.SOURCE, f"{name}.code.sha256", cell, "/lab/all") for name in ("harness", part)}
    assert set(needed(**command, **whole)) == pins


def test_variables_that_are_not_set_are_reported_with_the_place_that_names_them() -> None:
    declared = replace(declare(), unset={"DATA": Origin("specs/a.yaml", 7), "MODELS": Origin("specs/b.yaml", 9)})
    assert list_notes(declare(), RULES) == ()
    assert list_notes(declared, RULES) == tuple(
        f"{place}: the environment variable {name} is not set; paths below it count as missing "
        f"(export {name}=/path/to/it)"
        for place, name in (("specs/a.yaml:7", "DATA"), ("specs/b.yaml:9", "MODELS"))
    )

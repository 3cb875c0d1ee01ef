"""What a harness's command, and the script of a job, are reported."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from harness.contract import SOURCE_NOTE
from reconciler.execute.attempt import Intent, create
from reconciler.execute.commands import (
    collect_placeholder_values,
)
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.placeholders import fill_placeholders, fill_words
from reconciler.resource.settings import CellSettings
from reconciler.storage.files import RepositoryPaths


def ask(root: Path, settings: dict[str, Any], inputs: dict[str, str] | None = None, **more: Any) -> dict[str, str]:
    """The words of an accuracy run with these settings."""
    address = more.pop("address", Address(Kind.RUN, "open/box/net/Offline/accuracy"))
    asked = {name: (value, "specs/a.yaml:1") for name, value in more.pop("asked", {}).items()}
    paths = RepositoryPaths(root / "repository")
    name = f"2026-{len(list(paths.attempts.glob('*')))}"
    intent = Intent(name, address, "k" * 64, 1, "2026", asked, CellSettings(settings), **more)
    return collect_placeholder_values(create(paths.attempts, intent), paths, inputs or {})


@pytest.mark.parametrize(
    ("hardware", "device"),
    [
        ({}, "cpu"),
        ({"hardware.count": 4}, "cpu"),
        ({"hardware.accelerator": "none", "hardware.count": 4}, "cpu"),
        ({"hardware.accelerator": "H100"}, "0"),
        ({"hardware.accelerator": "H100", "hardware.count": 3}, "0,1,2"),
        ({"hardware.accelerator": "H100", "hardware.count": 1, "hardware.mig": "2x 1g.10gb"}, "0,1"),
    ],
)
def test_devices_are_the_slices_else_the_accelerators(hardware: dict[str, Any], device: str, tmp_path: Path) -> None:
    assert ask(tmp_path, hardware)["device"] == device


@pytest.mark.parametrize(
    ("settings", "interpreter"),
    [
        ({}, sys.executable),
        ({"system.launcher": ["ssh", "box"], "system.python": "/opt/venv/bin/python"}, "/opt/venv/bin/python"),
        ({"system.launcher": ["docker", "run", "image"]}, "python3"),
    ],
)
def test_the_interpreter_is_that_of_the_place_where_commands_run(
    settings: dict[str, Any], interpreter: str, tmp_path: Path
) -> None:
    assert ask(tmp_path, settings)["python"] == interpreter


@pytest.mark.parametrize(
    ("asked", "mode", "loadgen", "qps", "latency"),
    [
        (
            {"mode": "performance", "target_qps": 100, "target_latency": 15_000_000},
            "performance",
            "PerformanceOnly",
            "100",
            "15",
        ),
        ({"mode": "accuracy", "target_qps": None}, "accuracy", "AccuracyOnly", "", ""),
        ({}, "accuracy", "AccuracyOnly", "", ""),
    ],
    ids=["performance", "accuracy", "unsaid"],
)
def test_targets_are_reported_in_the_units_of_loadgen(
    asked: dict[str, Any], mode: str, loadgen: str, qps: str, latency: str, tmp_path: Path
) -> None:
    found = ask(tmp_path, {}, address=Address(Kind.RUN, "open/box/net/Server/performance"), asked=asked)
    reported = [found[name] for name in ("mode", "loadgen_mode", "scenario", "target_qps", "target_latency")]
    assert reported == [mode, loadgen, "Server", qps, latency]
    unsaid = ("sample_index_seed", "schedule_seed", "min_duration", "max_duration", "min_query_count", "model_name")
    assert {found[name] for name in unsaid} == {""}


@pytest.mark.parametrize(("system", "filled"), [("h200x8_TRT_MaxQ", "--slow"), ("h200x8_TRT", ""), ("h200x8", "")])
def test_the_end_of_a_systems_name_is_a_condition(system: str, filled: str, tmp_path: Path) -> None:
    assert fill_placeholders("{_MaxQ:+--slow}", ask(tmp_path, {"system.name": system})) == filled


@pytest.mark.parametrize("kind", ["model", "dataset"])
def test_a_model_is_what_was_made_of_it_else_its_source(kind: str, tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    locations, inputs = {f"{kind}.path": "data/x"}, {kind: str(made)}
    source = str((tmp_path / "repository/data/x").resolve())
    assert ask(tmp_path / "a", {}, inputs)[kind] == str(made)
    assert ask(tmp_path, {}, inputs, locations=locations)[kind] == str(made)
    assert ask(tmp_path, {}, locations=locations)[kind] == source
    by_command = {**locations, "benchmark.code": "command"}
    assert ask(tmp_path, {}, inputs, locations=by_command)[kind] == source
    assert ask(tmp_path, {}, inputs, locations={"benchmark.code": "command"})[kind] == ""
    (made / SOURCE_NOTE).touch()  # it is used as it is
    assert ask(tmp_path, {}, inputs, locations=locations)[kind] == source
    assert ask(tmp_path, {}, inputs)[kind] == str(made)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("--qps={target_qps}", "--qps=7"),
        ("{target_qps}{mode}", "7accuracy"),
        ("{{target_qps}}", "{target_qps}"),
        ("{none}", ""),
        ("{Upper} {1}", "{Upper} {1}"),
    ],
)
def test_a_placeholder_is_replaced_and_one_in_two_braces_is_passed_in_one(text: str, filled: str) -> None:
    assert fill_placeholders(text, {"target_qps": "7", "mode": "accuracy"}) == filled


TESTED = {
    "mode": "performance",
    "performance": "performance",
    "Offline": "Offline",
    "test": "TEST06",
    "target_qps": "7",
}
PLAIN = {"mode": "accuracy", "accuracy": "accuracy", "Server": "Server", "test": "", "target_qps": ""}


@pytest.mark.parametrize(
    ("text", "tested", "plain"),
    [
        ("a{test:+ --audit_test={test}}", "a --audit_test=TEST06", "a"),
        ("{Offline:+{target_qps:+--offline_expected_qps={target_qps}}}", "--offline_expected_qps=7", ""),
        ("{accuracy:+--accuracy}{performance:+{{mode}}}", "{mode}", "--accuracy"),
        ("${test:+-v x} ${test}", "${test:+-v x} $TEST06", "${test:+-v x} $"),
        ("{mode}} {Server:+}", "{mode}} ", "{mode}} "),
    ],
)
def test_a_conditional_part_is_there_where_its_name_represents_something(text: str, tested: str, plain: str) -> None:
    assert (fill_placeholders(text, TESTED), fill_placeholders(text, PLAIN)) == (tested, plain)


def test_a_word_of_which_a_condition_leaves_nothing_is_not_handed_over() -> None:
    words = ("run", "{accuracy:+--accuracy}", "{target_qps}", "", "{test:+--audit_test}", "{test:+{test}}")
    assert fill_words(words, TESTED) == ("run", "7", "", "--audit_test", "TEST06")
    assert fill_words(words, PLAIN) == ("run", "--accuracy", "", "")

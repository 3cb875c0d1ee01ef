"""What ships: the wheel carries its data, the pins are complete, and the base install needs no heavy library."""

from __future__ import annotations

import json
import re
import tomllib

import pytest
from jsonschema.validators import validator_for

from harness.benchmark_catalog import BENCHMARKS
from harness.errors import EXTRAS
from reconciler.rules.benchmark_facts import load_benchmark_facts
from reconciler.storage.packaged_files import read_shipped
from tests.architecture.source import ROOT

DOCUMENT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = DOCUMENT["project"]
SCHEMAS = sorted(path.name for path in (ROOT / "schemas").glob("*.json"))
PINS = [line for line in (ROOT / ".ci" / "constraints.txt").read_text().splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_valid_json_schema_and_ships(name: str) -> None:
    schema = json.loads(read_shipped(f"schemas/{name}"))
    validator_for(schema).check_schema(schema)


def test_a_missing_file_is_named_with_both_places() -> None:
    with pytest.raises(FileNotFoundError, match=r"schemas/none\.json is in neither .*data nor "):
        read_shipped("schemas/none.json")


def test_pins_are_names_and_versions_only() -> None:
    assert not [pin for pin in PINS if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", pin)]


def test_everything_that_is_installed_for_the_tests_is_pinned() -> None:
    pinned = {_normal(pin.partition("==")[0]) for pin in PINS}
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["loadgen"], *extras["cpu"], *extras["dev"]]
    names = {_normal(re.split(r"[\[<>=; ]", requirement)[0]) for requirement in wanted}
    assert names - {_normal(PROJECT["name"])} <= pinned


def test_extras_that_are_named_to_users_are_found_by_older_pips() -> None:
    """Those compare the name as it is written with the normalized one."""
    extras = PROJECT["optional-dependencies"]
    assert [name for name in extras if name != _normal(name)] == []
    named = {facts.extra for facts in load_benchmark_facts().values()} | set(EXTRAS.values())
    named |= {benchmark.installed_by for benchmark in BENCHMARKS.values()}
    assert {name for name in named if name} <= extras.keys()


def test_what_builds_an_editable_install_is_pinned() -> None:
    pinned = {_normal(pin.partition("==")[0]) for pin in PINS}
    wanted = [
        *DOCUMENT["build-system"]["requires"],
        "editables",
        "packaging",
        "pathspec",
        "pluggy",
        "trove-classifiers",
    ]
    assert {_normal(re.split(r"[\[<>=; ]", requirement)[0]) for requirement in wanted} <= pinned
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "PIP_CONSTRAINT=.ci/constraints.txt PIP_BUILD_CONSTRAINT=.ci/constraints.txt" in run


def test_the_base_install_has_no_benchmark_library() -> None:
    text = " ".join(PROJECT["dependencies"]).lower()
    assert not [name for name in ("loadgen", "numpy", "onnx", "openvino", "tensorrt", "cuda", "torch") if name in text]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()

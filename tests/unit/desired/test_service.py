"""What a server and an engine that a command builds are made from: what their own words ask for, and nothing else."""

from __future__ import annotations

import pytest

from reconciler.desired.compile import compile_desired
from reconciler.desired.state import Pins
from reconciler.errors import SpecError
from reconciler.resource.inputs import Input
from reconciler.resource.kinds import Address, Kind
from reconciler.rules.rounds import load_ruleset
from tests.unit.desired.test_inputs import compiled, declare
from tests.unit.spec import writing

BASE: dict[str, object] = {
    "engine__backend": None,
    "engine__version": None,
    "harness__command": ["run"],
    "harness__score.command": ["score"],
    "hardware__count": 2,
    "hardware__accelerator": "A100",
    "system__name": "box",
}
SERVICE = {"hardware.accelerator", "hardware.count", "harness.service.command", "model", "system.name"}
ENGINE = {"engine.batch_size", "engine.precision", "hardware.accelerator", "harness.build.command", "model"}
PARTS = {"service": (Kind.SERVICE, SERVICE), "build": (Kind.ENGINE, ENGINE)}


def collect(part: str, *words: str, **more: object) -> dict[str, Input]:
    """The inputs of what the part makes, by name."""
    command = {f"harness__{part}.command": ["make", *words], **more}
    desired = compiled(declare(**BASE, **command))
    kind, _ = PARTS[part]
    return {item.name: item for item in desired.detail(Address(kind, "open/box/digits/Server")).inputs}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    ("word", "reported"),
    [
        ("", set[str]()),
        ("scenario", set[str]()),  # no placeholder
        ("{model}", set[str]()),
        ("{scenario}", {"scenario"}),
        ("--data={dataset}", {"dataset"}),
        ("{benchmark}", {"benchmark.official"}),
        ("{system}", {"system.name"}),
        ("{precision}", {"engine.precision"}),
        ("{batch_size}", {"engine.batch_size"}),
        ("{device}", {"hardware.count"}),
        ("{precision}{scenario}", {"engine.precision", "scenario"}),
    ],
)
def test_what_differs_between_cells_counts_where_the_words_name_it(part: str, word: str, reported: set[str]) -> None:
    _, base = PARTS[part]
    assert set(collect(part, word)) == base | reported
    given = collect(part, "x", **{f"harness__{part}.env.WORD": word})
    assert set(given) == base | reported | {f"harness.{part}.env.WORD"}
    assert set(collect(part, "x", **{f"harness__{part}.cwd": word})) == base | reported
    assert set(collect(part, "x", harness__cwd=word)) == base | reported
    assert set(collect(part, "x", harness__cwd=word, **{f"harness__{part}.cwd": "here"})) == base


SPEC = writing.give_head("""\
  systems: {box: {category: datacenter, status: available}}
  benchmarks:
    digits:
      as: llama3.1-8b
      engine: {backend: openai}
      run: {options: {url: "http://here:8000", model: llama, api_key_env: KEY, timeout_s: 60, concurrency: 8}}
  divisions: {open: {box: {digits: {Offline: {target_qps: 1}}}}}
""")


def list_keys(old: str = "", new: str = "") -> dict[str, str]:
    desired, _ = compile_desired(writing.declare(SPEC.replace(old, new)), load_ruleset("v6.1"), Pins())
    return {str(resource.address): resource.key for resource in desired.resources}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("http://here:8000", "http://there:8000,http://beside:8000"),
        ("api_key_env: KEY", "api_key_env: OTHER"),
        ("timeout_s: 60", "timeout_s: 90, idle_timeout_s: 5"),
    ],
)
def test_where_a_server_is_and_how_long_to_wait_makes_nothing_stale(old: str, new: str) -> None:
    assert list_keys(old, new) == list_keys()


@pytest.mark.parametrize(("old", "new"), [("model: llama", "model: mistral"), ("concurrency: 8", "concurrency: 9")])
def test_what_it_is_asked_for_makes_runs_stale(old: str, new: str) -> None:
    before, after = list_keys(), list_keys(old, new)
    changed = {address.partition(":")[0] for address in before if before[address] != after[address]}
    assert changed == {"Run", "Score", "Result", "Submission"}


def test_address_without_a_model_is_refused() -> None:
    with pytest.raises(SpecError, match=r"run\.url needs a model name"):
        writing.declare(SPEC.replace(", model: llama", ""))

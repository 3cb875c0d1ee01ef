"""What a server and an engine that a command builds are made from: what their own words ask for, and nothing else."""

from __future__ import annotations

import pytest

from reconciler.resource.inputs import Input
from reconciler.resource.kinds import Address, Kind
from tests.unit.desired.test_inputs import compiled, declare

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
    assert set(collect(part, "x", **{f"harness__{part}.env.WORD": word})) == base | reported | {
        f"harness.{part}.env.WORD"
    }
    assert set(collect(part, "x", **{f"harness__{part}.cwd": word})) == base | reported
    assert set(collect(part, "x", harness__cwd=word)) == base | reported
    assert set(collect(part, "x", harness__cwd=word, **{f"harness__{part}.cwd": "here"})) == base

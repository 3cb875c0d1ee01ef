"""Reads the rounds: YAML files that ship beside this module, one per round. The newest explains their form."""

from __future__ import annotations

import difflib
import functools
import importlib.resources
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML

from reconciler.errors import ReconcilerError
from reconciler.mlperf.ruleset import (
    FIELDS,
    SOURCES,
    AccuracyLogRule,
    BenchmarkRules,
    Fields,
    Ruled,
    Ruleset,
    ScenarioTable,
    SystemField,
    normal_category,
)

_FOLDER = importlib.resources.files("reconciler.mlperf") / "rounds"


class RoundFileError(ValueError):
    """A round file of ours is malformed: a bug, not an error of the user."""


def known_rounds() -> tuple[str, ...]:
    """Every round that ships, oldest first."""
    names = (entry.name for entry in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


@functools.cache
def load_ruleset(name: str) -> Ruleset:
    """The rules of a round such as "v6.1". ReconcilerError names the nearest round and lists all when there is none."""
    rounds = known_rounds()
    if name not in rounds:
        nearest = difflib.get_close_matches(name, rounds, n=1, cutoff=0.4)
        hint = f"did you mean {nearest[0]}? " if nearest else ""
        raise ReconcilerError(f"unknown round {name!r}", fix=f"{hint}known rounds: {', '.join(rounds)}")
    document = YAML(typ="safe").load((_FOLDER / f"{name}.yaml").read_bytes())
    return parse_ruleset(document)


def parse_ruleset(document: Mapping[str, Any]) -> Ruleset:
    """A round file's document as a ruleset; RoundFileError names the place of whatever is wrong."""
    name, scenarios = document["round"], _levels(document.get("scenarios", {}), "scenarios")
    general = _fields(document["general"], "general")
    system_fields, system_sources = _single(document["system_fields"], "system_fields")
    measurements, measurements_sources = _single(document["measurements_fields"], "measurements_fields")
    log, log_sources = _single(document["accuracy_log"], "accuracy_log")
    divisions, division_sources = _single(document["divisions"], "divisions")
    return Ruleset(
        round=name,
        layout=document["layout"],
        benchmarks={
            benchmark: _benchmark(benchmark, name, entry, scenarios, general)
            for benchmark, entry in document["benchmarks"].items()
        },
        general=general,
        divisions=divisions,
        system_fields=tuple(_system_field(entry) for entry in system_fields),
        measurements_fields=tuple(measurements),
        accuracy_log=AccuracyLogRule(**log),
        sources={
            "system_fields": system_sources,
            "measurements_fields": measurements_sources,
            "accuracy_log": log_sources,
            "divisions": division_sources,
        },
    )


def _benchmark(
    name: str, round_name: str, entry: Mapping[str, Any], scenarios: Mapping[str, Fields], general: Fields
) -> BenchmarkRules:
    where = f"benchmarks.{name}"
    tables, sources = _single(entry["categories"], f"{where}.categories")
    own = _fields(entry.get("general", {}), where)
    special = _levels(entry.get("scenarios", {}), where)
    levels: dict[str, tuple[Fields, ...]] = {"": (own, general)}
    for scenario in scenarios:
        levels[scenario] = (special.get(scenario, {}), own, scenarios[scenario], general)
    return BenchmarkRules(
        name=name,
        round=round_name,
        tables={normal_category(category): _table(table or {}) for category, table in tables.items()},
        table_sources=sources,
        levels=levels,
    )


def _table(entry: Mapping[str, Any]) -> ScenarioTable:
    return ScenarioTable(
        required=tuple(entry.get("required", ())),
        optional=tuple(entry.get("optional", ())),
        one_of=tuple(tuple(group) for group in entry.get("one_of", ())),
    )


def _system_field(entry: Mapping[str, Any]) -> SystemField:
    return SystemField(**{**entry, "one_of": tuple(entry.get("one_of", ()))})


def _levels(groups: Mapping[str, Mapping[str, Any]], where: str) -> dict[str, Fields]:
    return {name: _fields(group, f"{where}.{name}") for name, group in groups.items()}


def _fields(group: Mapping[str, Any], where: str) -> Fields:
    unknown = sorted(set(group) - FIELDS)
    if unknown:
        raise RoundFileError(f"{where}: unknown fields {', '.join(unknown)}")
    return {name: ruled(name, entry, where) for name, entry in group.items()}


def ruled(name: str, entry: Mapping[str, Any], where: str = "") -> Ruled:
    """One ruled value from its mapping of sources to values; the strictest of several wins.

    Greater is stricter for least_ fields, less for most_ fields; sources must not differ about anything else.
    """
    where = f"{where}.{name}"
    options = [(_sources(sources, where), _exact(value, where)) for sources, value in entry.items()]
    if not options:
        raise RoundFileError(f"{where}: no source")
    if len(options) == 1:
        return Ruled(options[0][1], options[0][0])
    if not name.startswith(("least_", "most_")):
        raise RoundFileError(f"{where}: sources differ and neither is the stricter")
    strictest = (max if name.startswith("least_") else min)(options, key=lambda option: option[1])
    overruled = [(source, value) for sources, value in options for source in sources if (sources, value) != strictest]
    return Ruled(strictest[1], strictest[0], tuple(overruled))


def _single(entry: Mapping[str, Any], where: str) -> tuple[Any, tuple[str, ...]]:
    if len(entry) != 1:
        raise RoundFileError(f"{where}: exactly one source is expected")
    ((sources, value),) = entry.items()
    return value, _sources(sources, where)


def _sources(text: str, where: str) -> tuple[str, ...]:
    sources = tuple(text.split("+"))
    if not set(sources) <= set(SOURCES):
        raise RoundFileError(f"{where}: unknown source {text!r}; known: {', '.join(SOURCES)}")
    return sources


def _exact(value: Any, where: str) -> Any:
    if isinstance(value, float):
        raise RoundFileError(f"{where}: write {value!r} in quotes, so that it stays exact")
    return value

"""Finds the rounds and reads them: YAML files that ship beside this package, one per round. The newest explains their
form. Whatever is wrong with one is a RoundFileError that names the place.

A round that ``extends`` another is that one with its own values in place of those that changed; ``removed`` names what
is gone.
"""

from __future__ import annotations

import difflib
import functools
import importlib.resources
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ruamel.yaml import YAML

from reconciler.errors import ReconcilerError
from reconciler.mlperf.rules.ruled_value import GROUPS, RoundFileError, is_field, is_sourced, parse_ruled_value
from reconciler.mlperf.rules.ruleset import BenchmarkRules, Fields, Ruleset, normalise_category
from reconciler.mlperf.rules.values import (
    AccuracyLogRule,
    EndpointsRules,
    Inference,
    NetworkRules,
    ScenarioTable,
    SystemField,
)

_FOLDER = importlib.resources.files("reconciler.mlperf") / "rounds"
# Sections that are one value with its source; a round may lack the optional ones.
_SECTIONS = ("divisions", "system_fields", "measurements_fields", "accuracy_log")
_OPTIONAL = ("aliases", "inferences", "network", "power_fields", "endpoints")


def list_rounds() -> tuple[str, ...]:
    """Every round that ships, oldest first."""
    names = (entry.name for entry in _FOLDER.iterdir())
    rounds = (name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))
    return tuple(sorted(rounds, key=lambda name: [int(part) for part in re.findall(r"\d+", name)]))


@functools.cache
def load_ruleset(name: str) -> Ruleset:
    """The rules of a round such as "v6.1". ReconcilerError names the nearest round and lists all when there is none."""
    rounds = list_rounds()
    if name not in rounds:
        nearest = difflib.get_close_matches(name, rounds, n=1, cutoff=0.4)
        hint = f"did you mean {nearest[0]}? " if nearest else ""
        raise ReconcilerError(f"unknown round {name!r}", fix=f"{hint}known rounds: {', '.join(rounds)}")
    return parse_ruleset(_document(name))


def _document(name: str) -> Mapping[str, Any]:
    own = YAML(typ="safe").load((_FOLDER / f"{name}.yaml").read_bytes())
    return extend_round(_document(own["extends"]), own) if "extends" in own else own


def extend_round(base: Mapping[str, Any], own: Mapping[str, Any]) -> Mapping[str, Any]:
    """A round's document over that of the round it extends. A ruled value is replaced whole, never merged.

    ``removed`` names places of ``base`` as paths with slashes; RoundFileError when there is nothing at one.
    """
    kept = base
    for path in own.get("removed", ()):
        kept = _without(kept, path.split("/"), path)
    return merge_fields(kept, {key: value for key, value in own.items() if key not in ("extends", "removed")})


def _without(group: Mapping[str, Any], parts: list[str], path: str) -> dict[str, Any]:
    head, *rest = parts
    if head not in group:
        raise RoundFileError(f"removed: there is no {path}")
    if not rest:
        return {key: value for key, value in group.items() if key != head}
    return {**group, head: _without(group[head], rest, path)}


def parse_ruleset(document: Mapping[str, Any]) -> Ruleset:
    """A round file's document as a ruleset; RoundFileError names the place of whatever is wrong."""
    name, scenarios = document["round"], _levels(document.get("scenarios", {}), "scenarios")
    general = parse_fields(document["general"], "general")
    sections = {name: parse_ruled_value(name, document[name]) for name in (*_SECTIONS, *_OPTIONAL) if name in document}
    values = {name: section.value for name, section in sections.items()}
    entries = {benchmark: _entry(document["benchmarks"], benchmark, ()) for benchmark in document["benchmarks"]}
    return Ruleset(
        round=name,
        layout=document["layout"],
        benchmarks={
            benchmark: _benchmark(benchmark, name, entry, scenarios, general) for benchmark, entry in entries.items()
        },
        general=general,
        scenarios=scenarios,
        divisions=values["divisions"],
        system_fields=tuple(SystemField(**entry) for entry in values["system_fields"]),
        measurements_fields=values["measurements_fields"],
        accuracy_log=AccuracyLogRule(**values["accuracy_log"]),
        sections=sections,
        aliases=values.get("aliases", {}),
        inferences=tuple(Inference(**entry) for entry in values.get("inferences", ())),
        network=NetworkRules(**values.get("network", {})),
        power_fields=values.get("power_fields", ()),
        endpoints=EndpointsRules(**values.get("endpoints", {})),
    )


def _entry(benchmarks: Mapping[str, Any], name: str, through: tuple[str, ...]) -> Mapping[str, Any]:
    """A benchmark's entry over that of the benchmark it is ``like``."""
    if name in through or name not in benchmarks:
        raise RoundFileError(f"benchmarks.{' is like '.join((*through, name))}: no such benchmark, or a circle")
    entry: Mapping[str, Any] = benchmarks[name]
    if "like" not in entry:
        return entry
    own = {key: value for key, value in entry.items() if key != "like"}
    return merge_fields(_entry(benchmarks, entry["like"], (*through, name)), own)


def merge_fields(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """``own`` over ``base``, group by group; a ruled value is replaced whole."""
    result = dict(base)
    for key, value in own.items():
        below = base.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping) and not is_sourced(value):
            result[key] = merge_fields(below, value)
        else:
            result[key] = value
    return result


def _benchmark(
    name: str, round_name: str, entry: Mapping[str, Any], scenarios: Mapping[str, Fields], general: Fields
) -> BenchmarkRules:
    where = f"benchmarks.{name}"
    if unknown := sorted(set(entry) - {"categories", "general", "scenarios"}):
        raise RoundFileError(f"{where}: unknown parts {', '.join(unknown)}")
    tables = parse_ruled_value("categories", entry["categories"], where)
    own = parse_fields(entry.get("general", {}), where)
    special = _levels(entry.get("scenarios", {}), where)
    levels: dict[str, tuple[Fields, ...]] = {"": (own, general)}
    for scenario in {**scenarios, **special}:
        levels[scenario] = (special.get(scenario, {}), own, scenarios.get(scenario, {}), general)
    return BenchmarkRules(
        name=name,
        round=round_name,
        tables={
            normalise_category(category): ScenarioTable(**(table or {})) for category, table in tables.value.items()
        },
        tables_ruled=tables,
        levels=levels,
    )


def _levels(groups: Mapping[str, Mapping[str, Any]], where: str) -> dict[str, Fields]:
    return {name: parse_fields(group, f"{where}.{name}") for name, group in groups.items()}


def parse_fields(group: Mapping[str, Any], where: str) -> Fields:
    """A group of ruled values by their dotted names."""
    found = dict(_flat(group, "", where))
    if unknown := sorted(name for name in found if not is_field(name)):
        raise RoundFileError(f"{where}: unknown fields {', '.join(unknown)}")
    return {name: parse_ruled_value(name, entry, where) for name, entry in found.items()}


def _flat(group: Mapping[str, Any], prefix: str, where: str) -> Iterator[tuple[str, Any]]:
    for key, entry in group.items():
        name = f"{prefix}{key}"
        if not isinstance(entry, Mapping):
            raise RoundFileError(f"{where}.{name}: a mapping of sources to values is expected")
        if name.partition(".")[0] in GROUPS and not is_field(name):
            yield from _flat(entry, f"{name}.", where)
        else:
            yield name, entry

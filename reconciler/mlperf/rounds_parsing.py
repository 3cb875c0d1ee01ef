"""A round file's document as a ruleset. Whatever is wrong with it is a RoundFileError that names the place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.mlperf.rule_values import (
    AccuracyLogRule,
    EndpointsRules,
    Inference,
    NetworkRules,
    ScenarioTable,
    SystemField,
)
from reconciler.mlperf.ruled_value import GROUPS, RoundFileError, is_field, is_sourced, parse_ruled_value
from reconciler.mlperf.ruleset import BenchmarkRules, Fields, Ruleset, normalise_category

# Sections that are one value with its source; a round may lack the optional ones.
_SECTIONS = ("divisions", "system_fields", "measurements_fields", "accuracy_log")
_OPTIONAL = ("aliases", "inferences", "network", "power_fields", "endpoints")


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

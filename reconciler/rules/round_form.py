"""The form of a round file: its sections and their allowed content. The newest round explains it.

An unknown name would be ignored without warning, so it is refused with its location.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar, get_args

from msgspec import Struct
from msgspec.structs import fields

from reconciler.errors import suggest_nearest
from reconciler.resource.kinds import DIVISIONS, SCENARIOS
from reconciler.resource.ruled_values import ScenarioTable
from reconciler.rules.ruled_value import DEMAND_FIELDS, UNDIVIDED_FIELDS, RoundFileError
from reconciler.rules.ruleset import SECTION, Ruleset

_T = TypeVar("_T", bound=Struct)

# Sections that are one value with its source: attributes of the ruleset. Those with a default are optional.
SECTIONS = {item.name: item for item in fields(Ruleset) if SECTION in getattr(item.type, "__metadata__", ())}
_REQUIRED = tuple(name for name, item in SECTIONS.items() if item.required)
_SECTIONS = ("round", "layout", "general", "scenarios", "benchmarks", "earlier", *SECTIONS)
_CHAINING = ("extends", "removed")  # only in files; removed when the round is joined with the one that it extends
_BENCHMARK = ("like", "categories", "general", "scenarios")
_CATEGORIES = ("datacenter", "edge")
_DEMANDS = (
    *("scenarios", "compliance_tests", "accuracy", "model_mapping", "calibration", "used_systems", "whole_numbers"),
    *("filled_values", "portable_files", "early_stopping", "source_code", "listed_files", "accuracy_files"),
    *("accuracy_samples", "categories", "network_fields", "stated_accuracy"),
    *DEMAND_FIELDS,
)


def check_form(document: Any) -> None:
    """Raise RoundFileError for the first section or group that is unknown, misplaced or missing."""
    _check_names("", _mapping("", document), (*_SECTIONS, *_CHAINING), "section")
    for name in ("round", "layout", "general", "benchmarks", *_REQUIRED):
        if name not in document:
            raise RoundFileError(name, "this section is missing", fix=f"add it, or `extends` a round that has {name}")
    _check_scenarios("scenarios", document.get("scenarios", {}))
    for section in ("benchmarks", "earlier"):
        for name, entry in _mapping(section, document.get(section, {})).items():
            where = f"{section}.{name}"
            _check_names(where, _mapping(where, entry), _BENCHMARK, "part")
            _check_scenarios(f"{where}.scenarios", entry.get("scenarios", {}))


def check_divisions(divisions: Any) -> None:
    """Check which demands bind which division."""
    _check_names("divisions", _mapping("divisions", divisions), DIVISIONS, "division")
    for division, demands in divisions.items():
        _check_names(f"divisions.{division}", _mapping(f"divisions.{division}", demands), _DEMANDS, "demand")


def make_tables(where: str, categories: Any) -> dict[str, ScenarioTable]:
    """Return the scenarios that may be entered, by category as written."""
    tables = {}
    for category, entry in _mapping(where, categories).items():
        below = f"{where}.{category}"
        _check_names(where, [part.strip() for part in category.split(",")], _CATEGORIES, "category")
        table = make_value(below, ScenarioTable, entry or {})
        for scenario in (*table.required, *table.optional, *(name for group in table.one_of for name in group)):
            _check_names(below, [scenario], SCENARIOS, "scenario")
        tables[category] = table
    return tables


def make_section(name: str, value: Any) -> Any:
    """Convert a section's value to the attribute of the ruleset."""
    of, *_ = get_args(SECTIONS[name].type)
    if _is_struct(of):
        return make_value(name, of, value)
    items = get_args(of)[0]
    return make_values(name, items, value) if _is_struct(items) else value


_list_fields = functools.cache(fields)


def _is_struct(of: Any) -> bool:
    return isinstance(of, type) and issubclass(of, Struct)


def make_value(where: str, of: type[_T], entry: Any) -> _T:
    """Create a struct from a mapping; its keys are the field names."""
    known = _list_fields(of)
    _check_names(where, _mapping(where, entry), [item.name for item in known], "key")
    for item in known:
        if item.required and item.name not in entry:
            raise RoundFileError(where, f"the key {item.name} is missing", fix=f"add {item.name}")
    return of(**entry)


def make_values(where: str, of: type[_T], entries: Any) -> tuple[_T, ...]:
    return tuple(make_value(f"{where}.{number}", of, entry) for number, entry in enumerate(entries))


def check_place(where: str, names: Iterable[str]) -> None:
    """Check a group of fields for a scenario: fields that apply to all scenarios are misplaced there."""
    if misplaced := next((name for name in names if name in UNDIVIDED_FIELDS), None):
        raise RoundFileError(
            f"{where}.{misplaced}",
            "it applies to all scenarios and is ignored here",
            fix="move it to `general`of the benchmark or the round",
        )


def _check_scenarios(where: str, groups: Any) -> None:
    _check_names(where, _mapping(where, groups), SCENARIOS, "scenario")


def _check_names(where: str, names: Iterable[Any], known: Collection[str], what: str) -> None:
    unknown = next((str(name) for name in names if name not in known), None)
    if unknown is not None:
        refuse_name(where, unknown, known, what)


def refuse_name(where: str, unknown: str, known: Collection[str], what: str) -> None:
    """Raise RoundFileError with the nearest known name, and a few or all of the known names."""
    listed = f"known here: {', '.join(known)}" if len(known) <= len(_SECTIONS) + len(_CHAINING) else ""
    meant = suggest_nearest(unknown, known).rstrip()
    fix = "; ".join(filter(None, (meant, listed))) or "see the newest round file for valid keys"
    raise RoundFileError(f"{where}.{unknown}".lstrip("."), f"unknown {what}", fix=fix)


def _mapping(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise RoundFileError(where, "a mapping is expected here", fix="see the newest round file")
    return value

"""Find and read rounds: YAML files shipped with this package, one per round. The newest explains their form. Any
problem in one raises a RoundFileError with its file, line and fix; so does an unknown name, which would be ignored
without warning.

A round that ``extends`` another takes its values, except those that it states itself; ``removed`` lists those that are
gone. A round may also extend a later one; ``removed`` then lists what did not exist yet.
"""

from __future__ import annotations

import functools
import importlib.resources
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar, get_args

from msgspec import Struct
from msgspec.structs import fields
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, SequenceNode

from reconciler.errors import ReconcilerError, suggest_nearest
from reconciler.resource.kinds import DIVISIONS, SCENARIOS
from reconciler.resource.programs import find_program
from reconciler.resource.ruled_values import ScenarioTable
from reconciler.rules.compliance.judging import TESTS
from reconciler.rules.programs import load_program
from reconciler.rules.ruled_value import (
    DEMAND_FIELDS,
    FIELDS,
    GROUPS,
    SOURCES,
    TEST_PARTS,
    UNDIVIDED_FIELDS,
    RoundFileError,
    is_field,
    is_sourced,
    parse_ruled_value,
)
from reconciler.rules.ruleset import SECTION, BenchmarkRules, Fields, Ruleset, normalise_category

_T = TypeVar("_T", bound=Struct)

# Sections that consist of one value with its source, and become attributes of the ruleset. Those with a default are
# optional.
SECTIONS = {item.name: item for item in fields(Ruleset) if SECTION in getattr(item.type, "__metadata__", ())}
_REQUIRED = tuple(name for name, item in SECTIONS.items() if item.required)
_SECTIONS = ("round", "layout", "general", "scenarios", "benchmarks", "earlier", *SECTIONS)
_CHAINING = ("extends", "removed")  # only in files; removed when the round is joined with the one that it extends
_BENCHMARK = ("like", "categories", "general", "scenarios")
_CATEGORIES = ("datacenter", "edge")
_DEMANDS = (
    *("scenarios", "compliance_tests", "accuracy", "model_mapping", "calibration", "used_systems", "whole_numbers"),
    *("filled_values", "portable_files", "early_stopping", "source_code", "listed_files", "accuracy_files"),
    *("accuracy_samples", "categories", "network_fields", "stated_accuracy", "test_configurations"),
    *DEMAND_FIELDS,
)


def check_form(document: Any) -> None:
    """Raise RoundFileError for the first section or group that is unknown, misplaced or missing."""
    _check_names("", _require_mapping("", document), (*_SECTIONS, *_CHAINING), "section")
    for name in ("round", "layout", "general", "benchmarks", *_REQUIRED):
        if name not in document:
            raise RoundFileError(name, "this section is missing", fix=f"add it, or `extends` a round that has {name}")
    _check_scenarios("scenarios", document.get("scenarios", {}))
    for section in ("benchmarks", "earlier"):
        for name, entry in _require_mapping(section, document.get(section, {})).items():
            where = f"{section}.{name}"
            _check_names(where, _require_mapping(where, entry), _BENCHMARK, "part")
            _check_scenarios(f"{where}.scenarios", entry.get("scenarios", {}))


def make_tables(where: str, categories: Any) -> dict[str, ScenarioTable]:
    """Return the scenarios that may be entered, by normalised category."""
    tables = {}
    for category, entry in _require_mapping(where, categories).items():
        below = f"{where}.{category}"
        _check_names(where, [part.strip() for part in category.split(",")], _CATEGORIES, "category")
        table = make_value(below, ScenarioTable, entry or {})
        for scenario in (*table.required, *table.optional, *(name for group in table.one_of for name in group)):
            _check_names(below, [scenario], SCENARIOS, "scenario")
        tables[normalise_category(category)] = table
    return tables


def make_section(name: str, value: Any) -> Any:
    """Convert a section's value to the attribute of the ruleset."""
    of, *_ = get_args(SECTIONS[name].type)
    if _is_struct(of):
        return make_value(name, of, value)
    items = get_args(of)[0]
    if not _is_struct(items):
        return value
    return tuple(make_value(f"{name}.{number}", items, entry) for number, entry in enumerate(value))


_list_fields = functools.cache(fields)


def _is_struct(of: Any) -> bool:
    return isinstance(of, type) and issubclass(of, Struct)


def make_value(where: str, of: type[_T], entry: Any) -> _T:
    """Create a struct from a mapping; its keys are the field names."""
    known = _list_fields(of)
    _check_names(where, _require_mapping(where, entry), [item.name for item in known], "key")
    for item in known:
        if item.required and item.name not in entry:
            raise RoundFileError(where, f"the key {item.name} is missing", fix=f"add {item.name}")
    return of(**entry)


def _check_scenarios(where: str, groups: Any) -> None:
    _check_names(where, _require_mapping(where, groups), SCENARIOS, "scenario")


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


def _require_mapping(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise RoundFileError(where, "a mapping is expected here", fix="see the newest round file")
    return value


_FOLDER = importlib.resources.files("reconciler.rules") / "rounds"


def list_rounds() -> tuple[str, ...]:
    """Return every shipped round, oldest first."""
    names = (entry.name for entry in _FOLDER.iterdir())
    rounds = (name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))
    return tuple(sorted(rounds, key=order_round))


def order_round(name: object) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", str(name))]


@functools.cache
def load_ruleset(name: str) -> Ruleset:
    """Load the rules of a round such as "v6.1". For an unknown round, ReconcilerError lists all rounds, the nearest of
    the same year first."""
    if program := find_program(name):
        return load_program(program).load_ruleset(name)
    rounds = list_rounds()
    if name not in rounds:
        # A round of another year is a different round.
        near = [known for known in rounds if order_round(known)[:1] == order_round(name)[:1]]
        same = [known for known in near if order_round(known) == order_round(name)] or near[-1:]
        hint = f"did you mean {same[0]}? " if same else ""
        raise ReconcilerError(f"unknown round {name!r}", fix=f"{hint}known rounds: {', '.join(rounds)}")
    return read_round(name, read_file)


def states_itself(name: str, numbers: Iterable[int]) -> bool:
    """Return True if a round's file contains all of these numbers, for numbers that occur in no other round. Does not
    parse the file or those that it extends."""
    text = read_file(name)
    return all(str(number).encode() in text for number in numbers)


def read_file(name: str) -> bytes:
    return (_FOLDER / f"{name}.yaml").read_bytes()


def read_round(name: str, read: Callable[[str], bytes]) -> Ruleset:
    """Read a round. ``read``: returns the bytes of a round's file. The message of a RoundFileError begins with file and
    line."""
    files: dict[str, bytes] = {}
    try:
        ruleset = parse_ruleset(_join_files(name, read, files))
        if ruleset.round != name:
            fix = f"rename it to {name}, the name of its file"
            raise RoundFileError("round", f"the file states {ruleset.round}", fix=fix)
    except RoundFileError as error:
        raise error if error.at else _locate_error(error, files) from error
    return ruleset


def _join_files(name: str, read: Callable[[str], bytes], files: dict[str, bytes]) -> Mapping[str, Any]:
    """Join a round's document with all those it extends. ``files`` receives each file that was read, the newest
    first."""
    files[name] = read(name)
    try:
        own = _load_yaml(files[name])
    except MarkedYAMLError as error:
        at = f"{name}.yaml:{error.problem_mark.line + 1}"
        raise RoundFileError("", f"not YAML: {error.problem}", at=at) from error
    if not isinstance(own, Mapping) or "extends" not in own:
        return own  # not a mapping; its form is checked later
    base = _join_files(own["extends"], read, files)
    try:
        return extend_round(base, own)
    except RoundFileError as error:
        raise _locate_error(error, {name: files[name]}) from error


@functools.lru_cache(maxsize=16)  # newer rounds extend older ones, so these are read often
def _load_yaml(data: bytes) -> Any:
    return YAML(typ="safe").load(data)


def _locate_error(error: RoundFileError, files: Mapping[str, bytes]) -> RoundFileError:
    """Add the line of the error's place, in the newest of the files that contains it."""
    found = {name: _find_line(YAML(typ="safe", pure=True).compose(data), error.place) for name, data in files.items()}
    name = max(found, key=lambda name: found[name][0])
    return RoundFileError(error.place, error.problem, fix=error.fix, at=f"{name}.yaml:{found[name][1]}")


def _find_line(node: Any, place: str, depth: int = 0, line: int = 1) -> tuple[int, int]:
    """Return how many parts of the dotted path exist, and the line of the last of them. A place omits the sources
    between a section and its value, and names may contain dots."""
    best = (depth, line)
    if isinstance(node, SequenceNode):
        below = [(str(number), item.start_mark.line, item) for number, item in enumerate(node.value)]
    else:
        pairs = node.value if isinstance(node, MappingNode) else ()
        below = [(key.value, key.start_mark.line, item) for key, item in pairs]
    for name, at, item in below:
        if place == name or place.startswith(f"{name}."):
            found = _find_line(item, place[len(name) + 1 :], depth + len(name) + 1, at + 1)
        elif is_sourced({name: None}):
            found = _find_line(item, place, depth, line)
        else:
            continue
        best = max(best, found, key=lambda item: item[0])
    return best


def extend_round(base: Mapping[str, Any], own: Mapping[str, Any]) -> Mapping[str, Any]:
    """Apply a round's document on top of the one it extends. A ruled value is replaced entirely, never merged.

    ``removed`` lists places of ``base`` as paths with slashes. Raises RoundFileError if one does not exist.
    """
    later, kept = order_round(base.get("round")) > order_round(own.get("round")), dict(base)
    if later and "earlier" in base:  # without the earlier benchmarks of the later round that this round states itself
        stated = own.get("benchmarks", {})
        kept["earlier"] = {name: entry for name, entry in base["earlier"].items() if name not in stated}
    for path in own.get("removed", ()):
        kept = _remove_path(kept, path.split("/"), path)
        section, _, name = path.partition("/")
        # A removed benchmark may still be entered in a division that accepts benchmarks of earlier rounds.
        if not later and section == "benchmarks" and "/" not in name:
            kept["earlier"] = {**kept.get("earlier", {}), name: base["benchmarks"][name]}
    return merge_fields(kept, {key: value for key, value in own.items() if key not in _CHAINING})


def _remove_path(group: Mapping[str, Any], parts: list[str], path: str) -> dict[str, Any]:
    head, *rest = parts
    if head not in group:
        raise RoundFileError("removed", f"unknown path {path}", fix="use a path of the extended round, with slashes")
    if not rest:
        return {key: value for key, value in group.items() if key != head}
    return {**group, head: _remove_path(group[head], rest, path)}


def parse_ruleset(document: Mapping[str, Any]) -> Ruleset:
    """Parse a round file's document. Raises RoundFileError with the place of the problem."""
    check_form(document)
    name, scenarios = document["round"], _parse_levels(document.get("scenarios", {}), "scenarios")
    general = parse_fields(document["general"], "general")
    sections = {name: parse_ruled_value(name, document[name]) for name in SECTIONS if name in document}
    divisions = sections["divisions"].value
    _check_names("divisions", _require_mapping("divisions", divisions), DIVISIONS, "division")
    for division, demands in divisions.items():
        _check_names(f"divisions.{division}", _require_mapping(f"divisions.{division}", demands), _DEMANDS, "demand")
    stated = {**document.get("earlier", {}), **document["benchmarks"]}
    entries = {benchmark: _resolve_entry(stated, benchmark, ()) for benchmark in stated}
    rules = {own: _make_benchmark(own, name, entry, scenarios, general) for own, entry in entries.items()}
    ruleset = Ruleset(
        round=name,
        layout=document["layout"],
        benchmarks={benchmark: rules[benchmark] for benchmark in document["benchmarks"]},
        earlier={name: found for name, found in rules.items() if name not in document["benchmarks"]},
        general=general,
        scenarios=scenarios,
        sections=sections,
        **{name: make_section(name, section.value) for name, section in sections.items()},
    )
    for benchmark in ruleset.benchmarks.values():
        _check_tests(benchmark, set(benchmark.levels[""][0]))
    return ruleset


def _check_tests(rules: BenchmarkRules, own: Collection[str]) -> None:
    """Check that each compliance test that a benchmark needs is defined: by the round's values and by a judge
    function."""
    field = "compliance_tests"
    where = f"benchmarks.{rules.name}.general.{field}" if field in own else f"general.{field}"
    for test in rules.compliance_tests:
        if missing := [part for part in TEST_PARTS if f"tests.{test}.{part}" not in rules.list_names()]:
            fix = f"state {', '.join(missing)} below general.tests.{test}, or do not require it"
            raise RoundFileError(where, f"{test} has no definition in this round", fix=fix)
        if test not in TESTS:
            fix = f"add its module to reconciler/rules/compliance; known: {', '.join(TESTS)}"
            raise RoundFileError(where, f"no module judges {test}", fix=fix)


def _resolve_entry(benchmarks: Mapping[str, Any], name: str, through: tuple[str, ...]) -> Mapping[str, Any]:
    """Apply a benchmark's entry on top of the benchmark that it is ``like``."""
    if name in through or name not in benchmarks:
        chain, where = " is like ".join((*through, name)), f"benchmarks.{(*through, name)[0]}.like"
        fix = "use a benchmark of this round that does not refer back to this one"
        raise RoundFileError(where, f"{chain}: unknown benchmark, or a cycle", fix=fix)
    entry: Mapping[str, Any] = benchmarks[name]
    if "like" not in entry:
        return entry
    own = {key: value for key, value in entry.items() if key != "like"}
    return merge_fields(_resolve_entry(benchmarks, entry["like"], (*through, name)), own)


def merge_fields(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Apply ``own`` on top of ``base``, group by group; a ruled value is replaced entirely."""
    result = dict(base)
    for key, value in own.items():
        below = base.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping) and not is_sourced(value):
            result[key] = merge_fields(below, value)
        else:
            result[key] = value
    return result


def _make_benchmark(
    name: str, round_name: str, entry: Mapping[str, Any], scenarios: Mapping[str, Fields], general: Fields
) -> BenchmarkRules:
    where = f"benchmarks.{name}"
    if "categories" not in entry:
        raise RoundFileError(where, "it has no categories", fix="list the allowed scenarios of each category")
    tables = parse_ruled_value("categories", entry["categories"], where)
    own = parse_fields(entry.get("general", {}), f"{where}.general")
    special = _parse_levels(entry.get("scenarios", {}), f"{where}.scenarios")
    levels: dict[str, tuple[Fields, ...]] = {"": (own, general)}
    for scenario in {**scenarios, **special}:
        levels[scenario] = (special.get(scenario, {}), own, scenarios.get(scenario, {}), general)
    return BenchmarkRules(
        name=name,
        round=round_name,
        tables=make_tables(f"{where}.categories", tables.value),
        tables_ruled=tables,
        levels=levels,
    )


def _parse_levels(groups: Mapping[str, Mapping[str, Any]], where: str) -> dict[str, Fields]:
    found = {name: parse_fields(group, f"{where}.{name}") for name, group in groups.items()}
    places = (f"{where}.{name}.{rule}" for name, group in found.items() for rule in group if rule in UNDIVIDED_FIELDS)
    if place := next(places, ""):
        fix = "move it to `general` of the benchmark or the round"
        raise RoundFileError(place, "it applies to all scenarios and is ignored here", fix=fix)
    return found


def parse_fields(group: Mapping[str, Any], where: str) -> Fields:
    """Parse a group of ruled values by their dotted names."""
    found = dict(_flatten_fields(group, "", where))
    if unknown := next((name for name in found if not is_field(name)), None):
        refuse_name(where, unknown, FIELDS, "field")
    return {name: parse_ruled_value(name, entry, where) for name, entry in found.items()}


def _flatten_fields(group: Mapping[str, Any], prefix: str, where: str) -> Iterator[tuple[str, Any]]:
    for key, entry in group.items():
        name = f"{prefix}{key}"
        if not isinstance(entry, Mapping):
            fix = f"write {{SOURCE: value}}; known sources: {', '.join(SOURCES)}"
            raise RoundFileError(f"{where}.{name}", "a mapping of sources to values is expected", fix=fix)
        if name.partition(".")[0] in GROUPS and not is_field(name):
            yield from _flatten_fields(entry, f"{name}.", where)
        else:
            yield name, entry

"""Slips of indentation that leave the YAML valid: a name that is one level too deep or too shallow, and is taken for
the name of a system, a benchmark or a block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from reconciler.errors import Problem
from reconciler.resource.inputs import Origin
from reconciler.resource.programs import find_program_of_division
from reconciler.spec import models, settings_models
from reconciler.spec.groups import Group
from reconciler.spec.nodes import MapNode, Node

_OF_SPEC = frozenset(models.Spec.model_fields)
_OF_DOCUMENT = frozenset(models.Document.model_fields)
# Section of spec → what one of its entries is called, and the group that an entry is.
_SECTIONS: dict[str, tuple[str, type[Group]]] = {
    "systems": ("system", models.System),
    "benchmarks": ("benchmark", models.BenchmarkGroup),
    "defaults": ("block", settings_models.SettingsGroup),
}


class IndentationSlip(Struct, frozen=True):
    """``silent``: paths of what it took from its place, of which nothing more is to be said."""

    problem: Problem
    silent: tuple[str, ...] = ()


def find_indentation_errors(root: MapNode) -> list[IndentationSlip]:
    """Find settings in the place of the user's own names."""
    return list(_slips(root))


def _slips(root: MapNode) -> Iterator[IndentationSlip]:
    spec = root.items.get("spec")
    for name in root.items:
        if name in _OF_SPEC and name not in _OF_DOCUMENT:
            where = "below spec" if isinstance(spec, MapNode) else "below 'spec:'"
            yield _slip(root.keys[name], name, f"{name} is a section of spec", f"indent it, {where}")
    if not isinstance(spec, MapNode):
        return
    for section, (noun, group) in _SECTIONS.items():
        entries = spec.items.get(section)
        if isinstance(entries, MapNode):
            yield from _in_section(entries, section, noun, list_names(group))
    divisions = spec.items.get("divisions")
    if isinstance(divisions, MapNode):
        declared = {section: _list_entries(spec, section) for section in ("systems", "benchmarks")}
        yield from _in_divisions(divisions, declared)


def list_names(group: type[Group]) -> list[str]:
    return [field.alias or name for name, field in group.model_fields.items()]


def _in_section(entries: MapNode, section: str, noun: str, settings: list[str]) -> Iterator[IndentationSlip]:
    before = ""
    for name, node in entries.items.items():
        path = f"spec.{section}.{name}"
        if name in _OF_SPEC and name not in settings and name != section:
            message = f"{name} is a section of spec, not the name of a {noun}"
            # Where nothing is below it, the following lines are its own.
            after = list(entries.items)[list(entries.items).index(name) + 1 :] if not isinstance(node, MapNode) else []
            silent = tuple(f"spec.{section}.{later}" for later in after)
            yield _slip(entries.keys[name], path, message, f"indent it less, as {section} is", silent)
            if silent:
                return
        elif name in settings and not _is_entry(node, settings):
            holder = f", below {before}" if before else ""
            message = f"{name} is a setting of a {noun}, not the name of one"
            yield _slip(entries.keys[name], path, message, f"indent it more{holder}")
        else:
            before = name


def _is_entry(node: Node, settings: list[str]) -> bool:
    """True where the names below are those of an entry; a setting that is a group has other names."""
    return isinstance(node, MapNode) and any(name in settings for name in node.items)


def _list_entries(spec: MapNode, section: str) -> frozenset[str]:
    entries = spec.items.get(section)
    return frozenset(entries.items) if isinstance(entries, MapNode) else frozenset()


def _in_divisions(divisions: MapNode, names: Mapping[str, frozenset[str]]) -> Iterator[IndentationSlip]:
    scenarios = list_names(models.Scenarios)
    settings = list_names(models.CellGroup)
    for division, systems in _groups(divisions):
        if find_program_of_division(division):
            continue  # the program knows what is below its benchmarks
        for system, benchmarks in _groups(systems):
            path = f"spec.divisions.{division}.{system}"
            inner = next((name for name in benchmarks.items if name in names["systems"]), "")
            if inner and system in names["benchmarks"] and system not in names["systems"]:
                message = f"{system} is a benchmark, and {inner} below it a system"
                yield _slip(systems.keys[system], path, message, f"write {inner} first, and {system} below it")
                continue
            for name, node in benchmarks.items.items():
                if name in scenarios:
                    message = f"{name} is a scenario, in the place of a benchmark"
                    yield _slip(benchmarks.keys[name], f"{path}.{name}", message, "indent it more, below its benchmark")
                elif isinstance(node, MapNode):
                    yield from _among_scenarios(node, f"{path}.{name}", settings)


def _among_scenarios(benchmark: MapNode, path: str, settings: list[str]) -> Iterator[IndentationSlip]:
    before = ""
    for name in benchmark.items:
        if name in settings:
            holder = f", below {before}" if before else ", below its scenario"
            message = f"{name} is a setting of a cell, in the place of a scenario"
            yield _slip(benchmark.keys[name], f"{path}.{name}", message, f"indent it more{holder}")
        else:
            before = name


def _groups(node: MapNode) -> Iterator[tuple[str, MapNode]]:
    for name, item in node.items.items():
        if isinstance(item, MapNode):
            yield name, item


def _slip(origin: Origin, path: str, message: str, fix: str, silent: tuple[str, ...] = ()) -> IndentationSlip:
    return IndentationSlip(Problem(origin.file, origin.line, origin.column, path, message, fix), silent)

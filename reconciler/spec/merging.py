"""Several files made one tree: groups merge by their names; a value, a list or an empty group may be set only once."""

from __future__ import annotations

from collections.abc import Iterable

from reconciler.errors import Problem
from reconciler.spec.nodes import MapNode, Node
from reconciler.spec.quantities import show_quantity

API_VERSION = "mlperf-reconciler/v1"
KIND = "Submission"
_HEADER = {"apiVersion": API_VERSION, "kind": KIND}
_ONLY_WHEN_NAMED = "only_when_named"


def check_header(root: MapNode) -> list[Problem]:
    """Every file says what it is, so that a stray YAML file is not merged by accident."""
    problems = []
    for name, expected in _HEADER.items():
        node = root.items.get(name)
        where = root.origin if node is None else node.origin
        value = getattr(node, "value", None)
        if node is None:
            message = f"{name} is missing"
        elif value != expected:
            message = f"{name} is {show_quantity(value)}, not {expected}"
        else:
            continue
        problems.append(Problem(where.file, where.line, where.column, name, message, f"write '{name}: {expected}'"))
    return problems


def applies_only_when_named(root: MapNode) -> bool:
    """True where the file stays out of what a folder of specs declares together."""
    return getattr(root.items.get(_ONLY_WHEN_NAMED), "value", None) is True


def merge(roots: Iterable[MapNode]) -> tuple[MapNode | None, list[Problem]]:
    """All roots as one; None when there are none."""
    problems: list[Problem] = []
    merged: MapNode | None = None
    for root in roots:
        if merged is None:
            merged = root
        else:
            later = MapNode(
                root.origin,
                {name: item for name, item in root.items.items() if name not in (*_HEADER, _ONLY_WHEN_NAMED)},
                root.keys,
            )
            merged = _merge(merged, later, "", problems)
    return merged, problems


def _merge(first: MapNode, second: MapNode, path: str, problems: list[Problem]) -> MapNode:
    items, keys = dict(first.items), dict(first.keys)
    for name, item in second.items.items():
        inner = f"{path}.{name}" if path else name
        if name not in items:
            items[name], keys[name] = item, second.keys[name]
            continue
        known = items[name]
        if _group(known) and _group(item):
            assert isinstance(known, MapNode)
            assert isinstance(item, MapNode)
            items[name] = _merge(known, item, inner, problems)
        else:
            problems.append(_twice(inner, known, item))
    return MapNode(first.origin, items, keys)


def _group(node: Node) -> bool:
    return isinstance(node, MapNode) and bool(node.items)


def _twice(path: str, first: Node, second: Node) -> Problem:
    here, there = second.origin, first.origin
    message = f"set here and in {there.file}:{there.line}:{there.column}"
    fix = f"keep one of {there.file}:{there.line} and {here.file}:{here.line}"
    return Problem(here.file, here.line, here.column, path, message, fix)

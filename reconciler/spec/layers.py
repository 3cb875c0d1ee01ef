"""Layers of settings, and the order in which they win.

From lowest to highest: a benchmark, a system, a benchmark on a system, a scenario of it there, the cell. Each has the
blocks that it uses below its own settings, and a system those that it extends. Within ``use`` and ``extends`` a later
name wins. Each single value (a leaf such as ``engine.options.graph_optimization``) is layered by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from msgspec import Struct

from reconciler.errors import Problem
from reconciler.resource.inputs import Value
from reconciler.resource.kinds import SCENARIOS
from reconciler.spec.groups import Group, name_field
from reconciler.spec.nodes import MapNode, Node

# Names of blocks and systems, and groups of which each entry has a layer of its own.
_APART = ("use", "extends", "points", "benchmarks", *SCENARIOS)


class LayeredSetting(Struct, frozen=True):
    """A value as one layer sets it; ``path`` is where in the document."""

    value: Value
    path: str


# Flat name -> its settings, highest layer first.
Block = dict[str, tuple[LayeredSetting, ...]]


def flatten(group: Group, node: Node | None, path: str, inside: str = "", *, leave_out: Collection[str] = ()) -> Block:
    """Every value written in ``group``, by flat name. ``node`` is the group's place in the tree; ``leave_out``:
    names of its fields."""
    block: Block = {}
    if not isinstance(node, MapNode):
        return block
    for name in group.model_fields_set:
        if name in leave_out:
            continue
        field = type(group).model_fields[name]
        written = field.alias or name
        if written in _APART and not inside:
            continue
        value, child = getattr(group, name), node.items.get(written)
        if child is None:
            continue
        full, below = f"{inside}{written}", f"{path}.{written}"
        if isinstance(value, Group):
            if value.NAMED:
                block[full] = (LayeredSetting(Value(True, child.origin), below),)
            block |= flatten(value, child, below, f"{full}.")
        elif written == "compliance":
            block |= _tests(value, child, below)
        elif isinstance(value, dict):
            block |= _leaves(value, child, below, f"{full}.")
        else:
            block[name_field(field, full)] = (LayeredSetting(Value(value, child.origin), below),)
    return block


def _tests(tests: Mapping[str, Group], node: Node, path: str) -> Block:
    """A test that is named is asked for, with or without settings of its own."""
    block: Block = {}
    for name, group in tests.items():
        child = node.items.get(name) if isinstance(node, MapNode) else None
        origin = (child or node).origin
        block[f"compliance.{name}"] = (LayeredSetting(Value(True, origin), f"{path}.{name}"),)
        block |= flatten(group, child, f"{path}.{name}", f"compliance.{name}.")
    return block


def _leaves(values: Mapping[str, Any], node: Node, path: str, inside: str) -> Block:
    if not isinstance(node, MapNode):
        return {}
    block: Block = {}
    for name, value in values.items():
        child, below = node.items[name], f"{path}.{name}"
        if isinstance(value, dict):
            block |= _leaves(value, child, below, f"{inside}{name}.")
        else:
            block[inside + name] = (LayeredSetting(Value(value, child.origin), below),)
    return block


def combine(layers: Iterable[Block]) -> Block:
    """The layers, lowest first, as one block that still knows what each value overrides."""
    result: Block = {}
    for layer in layers:
        for name, settings in layer.items():
            below = result.get(name)
            result[name] = settings if below is None else tuple(dict.fromkeys(settings + below))
    return result


def order_layers(below: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Name → those whose layers it has, lowest first, itself last. ``below``: the names of what each takes up, which
    are declared and without circles."""
    found: dict[str, tuple[str, ...]] = {}
    for name in TopologicalSorter(below).static_order():
        taken = [layer for used in below[name] for layer in found[used]]
        found[name] = (*reversed(dict.fromkeys(reversed(taken))), name)
    return found


def resolve_blocks(own: Mapping[str, Block], below: Mapping[str, tuple[str, ...]]) -> dict[str, Block]:
    """Each block over those that it takes up."""
    return {name: combine(own[layer] for layer in layers) for name, layers in order_layers(below).items()}


def break_cycles(
    section: str, field: str, below: Mapping[str, tuple[str, ...]], origins: Mapping[str, Value]
) -> tuple[dict[str, tuple[str, ...]], list[Problem]]:
    """``below`` without circles, and a problem for each circle. ``field``: in which the entries of a section of the
    spec name each other; ``origins``: its place in each entry."""
    free = dict(below)
    problems = []
    while True:
        try:
            TopologicalSorter(free).prepare()
        except CycleError as error:
            # graphlib lists the circle from the used to the user.
            circle = list(reversed(error.args[1]))[:-1]
            first = min(range(len(circle)), key=lambda index: origins[circle[index]].origin)
            circle = circle[first:] + circle[:first]
            problems.append(_circle(section, field, circle, origins))
            free[circle[0]] = tuple(used for used in free[circle[0]] if used != circle[(1) % len(circle)])
        else:
            return free, problems


def _circle(section: str, field: str, circle: list[str], origins: Mapping[str, Value]) -> Problem:
    where = origins[circle[0]].origin
    steps = " → ".join(f"{name} ({origins[name].origin})" for name in circle)
    message = f"{section} {'use' if field == 'use' else 'extend'} each other in a circle: {steps} → {circle[0]}"
    fix = f"take {circle[1 % len(circle)]} out of the {field} of {circle[0]}, or break the circle at another step"
    return Problem(where.file, where.line, where.column, f"spec.{section}.{circle[0]}.{field}", message, fix)

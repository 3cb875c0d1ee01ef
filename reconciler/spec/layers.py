"""Layers of settings, and their precedence.

From lowest to highest: a benchmark, a system, a benchmark on a system, a scenario of that benchmark, the cell. The
blocks that a layer uses are below its own settings, and the systems that a system extends are below it. Within ``use``
and ``extends`` a later name wins. Each single value (a leaf such as ``engine.options.graph_optimization``) is layered
separately.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from msgspec import Struct

from reconciler.errors import Problem
from reconciler.resource.inputs import Origin, Value
from reconciler.resource.kinds import SCENARIOS
from reconciler.spec.groups import Group, name_field
from reconciler.spec.nodes import MapNode, Node

# Names of blocks and systems, and groups whose entries have separate layers.
_APART = ("use", "extends", "points", "benchmarks", *SCENARIOS)


class LayeredSetting(Struct, frozen=True):
    """A value set by one layer; ``path``: its place in the document."""

    value: Value
    path: str

    def make_problem(self, message: str, fix: str) -> Problem:
        return self.value.origin.make_problem(self.path, message, fix)

    def imply(self, value: object, origin: Origin | None = None) -> tuple[LayeredSetting]:
        """Return the layers of a value that this setting implies. ``origin``: by default its own."""
        return (LayeredSetting(Value(value, origin or self.value.origin), self.path),)


# Flat name → its settings, highest layer first.
Block = dict[str, tuple[LayeredSetting, ...]]


def get_text(block: Block, name: str, default: str = "") -> str:
    """Return the value of the highest layer."""
    return str(block[name][0].value.value) if name in block else default


def flatten(group: Group, node: Node | None, path: str, inside: str = "", *, leave_out: Collection[str] = ()) -> Block:
    """Map flat names to the values declared in ``group``. ``node``: the group's node in the tree; ``leave_out``: names
    of fields to skip."""
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
            block |= _flatten_tests(value, child, below)
        elif isinstance(value, dict):
            block |= _flatten_leaves(value, child, below, f"{full}.")
        else:
            block[name_field(field, full)] = (LayeredSetting(Value(value, child.origin), below),)
    return block


def _flatten_tests(tests: Mapping[str, Group], node: Node, path: str) -> Block:
    """Return the settings of the named tests; naming a test requests it, even without settings."""
    block: Block = {}
    for name, group in tests.items():
        child = node.items.get(name) if isinstance(node, MapNode) else None
        origin = (child or node).origin
        block[f"compliance.{name}"] = (LayeredSetting(Value(True, origin), f"{path}.{name}"),)
        block |= flatten(group, child, f"{path}.{name}", f"compliance.{name}.")
    return block


def _flatten_leaves(values: Mapping[str, Any], node: Node, path: str, inside: str) -> Block:
    if not isinstance(node, MapNode):
        return {}
    block: Block = {}
    for name, value in values.items():
        child, below = node.items[name], f"{path}.{name}"
        if isinstance(value, dict):
            block |= _flatten_leaves(value, child, below, f"{inside}{name}.")
        else:
            block[inside + name] = (LayeredSetting(Value(value, child.origin), below),)
    return block


def give_origin(block: Block, origin: Origin) -> Block:
    """Return a block of an included file with this origin for each of its values."""
    return {name: layers[0].imply(layers[0].value.value, origin) for name, layers in block.items()}


def combine(layers: Iterable[Block]) -> Block:
    """Combine layers, lowest first, into one block that keeps the overridden values."""
    result: Block = {}
    for layer in layers:
        for name, settings in layer.items():
            below = result.get(name)
            result[name] = settings if below is None else tuple(dict.fromkeys(settings + below))
    return result


def order_layers(below: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the layers of each name, lowest first, itself last. ``below``: the declared names that each uses, without
    cycles."""
    found: dict[str, tuple[str, ...]] = {}
    for name in TopologicalSorter(below).static_order():
        taken = [layer for used in below[name] for layer in found[used]]
        found[name] = (*reversed(dict.fromkeys(reversed(taken))), name)
    return found


def resolve_blocks(own: Mapping[str, Block], below: Mapping[str, tuple[str, ...]]) -> dict[str, Block]:
    """Return each block on top of the blocks that it uses."""
    return {name: combine(own[layer] for layer in layers) for name, layers in order_layers(below).items()}


def break_cycles(
    section: str, field: str, below: Mapping[str, tuple[str, ...]], origins: Mapping[str, Value]
) -> tuple[dict[str, tuple[str, ...]], list[Problem]]:
    """Return ``below`` without cycles, and a problem for each cycle. ``field``: the field in which the entries of a
    section refer to each other; ``origins``: the place of that field in each entry."""
    free = dict(below)
    problems = []
    while True:
        try:
            TopologicalSorter(free).prepare()
        except CycleError as error:
            # graphlib lists the cycle in the order from a used name to its user.
            circle = list(reversed(error.args[1]))[:-1]
            first = min(range(len(circle)), key=lambda index: origins[circle[index]].origin)
            circle = circle[first:] + circle[:first]
            user, used = circle[0], circle[1 % len(circle)]
            steps = " → ".join(f"{name} ({origins[name].origin})" for name in circle)
            how = "use" if field == "use" else "extend"
            message = f"{section} {how} each other in a cycle: {steps} → {user}"
            fix = f"remove {used} from the {field} of {user}, or break the cycle elsewhere"
            problems.append(origins[user].origin.make_problem(f"spec.{section}.{user}.{field}", message, fix))
            free[user] = tuple(name for name in free[user] if name != used)
        else:
            return free, problems

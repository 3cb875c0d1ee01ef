"""Write a proposed system into a user's spec: fill in open fields, and keep what users wrote."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from ruamel.yaml.nodes import MappingNode

from reconciler.spec.declared import NOT_DECLARED
from reconciler.spec.edit import (
    EditError,
    compose,
    convert_plain_value,
    find_deepest,
    find_end,
    read,
    render_value,
    set_value,
)
from reconciler.spec.proposal import DESCRIPTION_FIELDS, Proposal

# Placeholders of a starter spec in fields to be filled in.
_OPEN = ("", NOT_DECLARED, "unknown", "unknown CPU")
_INDENT = 2


class Described(Struct, frozen=True):
    """``text``: the spec with the system described. ``kept``: field → (value in the spec, value read), if they differ
    and the spec's value is kept. ``missing``: required fields that are not filled in."""

    text: str
    kept: Mapping[str, tuple[str, str]]
    missing: tuple[str, ...]


def list_systems(text: str) -> Mapping[str, Any]:
    """Return the systems of a spec, with the values of those that they extend in the same file."""
    document = read(text)
    spec = document.get("spec") if isinstance(document, dict) else None
    systems = spec.get("systems") if isinstance(spec, dict) else None
    found: Mapping[str, Any] = systems if isinstance(systems, dict) else {}
    return {name: _inherit(found, name, ()) for name in found}


def _inherit(systems: Mapping[str, Any], name: str, below: tuple[str, ...]) -> Any:
    """``below``: the systems that extend this one, which it cannot extend itself."""
    own = systems.get(name)
    if not isinstance(own, Mapping):
        return own
    extended = own.get("extends", [])
    merged: dict[str, Any] = {}
    for other in [extended] if isinstance(extended, str) else extended if isinstance(extended, list) else []:
        if other not in (*below, name) and isinstance(taken := _inherit(systems, other, (*below, name)), Mapping):
            merged = _overlay(merged, taken)
    return _overlay(merged, own)


def _overlay(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    both = {name: _overlay(below[name], item) for name, item in above.items() if _are_groups(below.get(name), item)}
    return {**below, **above, **both}


def _are_groups(*values: Any) -> bool:
    return all(isinstance(value, Mapping) for value in values)


def describe(text: str, system: str, proposal: Proposal, *, overwrite: bool = False) -> Described:
    """Return ``text`` with the values read for ``system``. Raises EditError, and SpecError for a text that is not
    YAML."""
    at = ("spec", "systems", system)
    declared = list_systems(text)
    if system not in declared:
        block = {
            "category": "datacenter",
            "status": "available",
            "hardware": dict(proposal.hardware),
            "description": dict(proposal.description),
        }
        return Described(_add_block(text, at, block), {}, list_required(proposal.unread))
    groups = declared[system] or {}
    if not groups.get("hardware"):
        text = _add_block(text, (*at, "hardware"), dict(proposal.hardware))
    description = groups.get("description") or {}
    if not description:
        text = _add_block(text, (*at, "description"), dict(proposal.description))
        return Described(text, {}, list_required(proposal.unread))
    kept = {}
    for name, value in proposal.description.items():
        written = description.get(name)
        if written is None or str(written) in _OPEN or (overwrite and str(written) != value):
            text = set_value(text, (*at, "description", name), value)
        elif str(written) != value:
            kept[name] = (str(written), value)
    missing = (name for name in list_required(proposal.unread) if str(description.get(name, "")) in _OPEN)
    return Described(text, kept, tuple(missing))


def list_required(names: Iterable[str]) -> tuple[str, ...]:
    """List the fields that a submission may not leave empty."""
    return tuple(name for name in names if "may be empty" not in DESCRIPTION_FIELDS[name])


def _add_block(text: str, names: Sequence[str], block: Mapping[str, Any]) -> str:
    """Add a group on separate lines if the group above it has such lines, or else on one line."""
    node, depth = find_deepest(compose(text), names)
    if depth != len(names) - 1 or not isinstance(node, MappingNode) or node.flow_style or not node.value:
        return set_value(text, names, block)
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = render_block_lines(names[-1], block, node.value[0][0].start_mark.column)
    end = text.find("\n", find_end(node))
    place = len(text) if end < 0 else end + 1
    before = "" if end >= 0 else newline
    edited = text[:place] + before + "".join(f"{line}{newline}" for line in lines) + text[place:]
    expected = copy.deepcopy(read(text))
    holder = expected
    for name in names[:-1]:
        holder = holder[name]
    holder[names[-1]] = convert_plain_value(block)
    if read(edited) != expected:
        raise EditError(f"{'.'.join(names)} cannot be added automatically; add it by hand")
    return edited


def render_block_lines(name: str, value: Any, column: int = 0) -> list[str]:
    """Render a group as YAML on separate lines."""
    space = " " * column
    if not isinstance(value, Mapping):
        return [f"{space}{render_value(name)}: {render_value(value)}"]
    inside = [line for key, item in value.items() for line in render_block_lines(key, item, column + _INDENT)]
    return [f"{space}{render_value(name)}:", *inside]

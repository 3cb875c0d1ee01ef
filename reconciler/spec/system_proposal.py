"""Write a proposed system into a user's spec: fill in open fields, and keep what users wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from reconciler.spec.declared import NOT_DECLARED
from reconciler.spec.edit import add_group, read, set_value
from reconciler.spec.proposal import DESCRIPTION_FIELDS, Proposal

# Placeholders of a starter spec in fields to be filled in.
_OPEN = ("", NOT_DECLARED, "unknown", "unknown CPU")


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
    """Add what a system inherits. ``below``: the systems that extend this one, so that it cannot extend them."""
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
    shared = ((name, below.get(name), item) for name, item in above.items() if isinstance(item, Mapping))
    both = {name: _overlay(lower, item) for name, lower, item in shared if isinstance(lower, Mapping)}
    return {**below, **above, **both}


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
        return Described(add_group(text, at, block), {}, list_required(proposal.unread))
    groups = declared[system] or {}
    if not groups.get("hardware"):
        text = add_group(text, (*at, "hardware"), dict(proposal.hardware))
    description = groups.get("description") or {}
    if not description:
        text = add_group(text, (*at, "description"), dict(proposal.description))
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

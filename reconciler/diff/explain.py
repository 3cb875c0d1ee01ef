"""Why a resource changes: which inputs differ from the last record, and whether the cause is its own or upstream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reconciler.diff.change import InputChange
from reconciler.resource.canonical import canonicalise
from reconciler.resource.inputs import DEFAULT, Input, Origin
from reconciler.resource.kinds import find_upstream
from reconciler.resource.records import RecordedInput


def list_input_changes(inputs: tuple[Input, ...], before: Mapping[str, RecordedInput]) -> tuple[InputChange, ...]:
    """List the differing inputs: own inputs first, then upstream keys, each group sorted by name."""
    now = {item.name: item for item in inputs if item.value is not None}
    found = []
    for name in sorted(set(now) | set(before)):
        old: Any = before[name].value if name in before else None
        new = canonicalise(now[name].value) if name in now else None
        if old != new:
            then = before[name].origin if name in before else ""
            origin = now[name].origin if name in now else _gone(inputs)
            upstream = now[name].upstream if name in now else find_upstream(then)
            found.append(InputChange(name, old, new, origin, then, upstream))
    return tuple(sorted(found, key=lambda change: (change.upstream is not None, change.name)))


def _gone(inputs: tuple[Input, ...]) -> Origin:
    first = inputs[0].origin if inputs else DEFAULT
    return next((i.origin for i in inputs if i.origin.line), first)

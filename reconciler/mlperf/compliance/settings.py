"""Writes the audit settings that make a performance run a compliance test, in LoadGen's ``audit.config`` form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

PREFIX = "audit."  # of audit settings among a test's inputs


def audit_settings(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The audit settings among a test's inputs, under LoadGen's names; empty for a run that is no test."""
    return {name.removeprefix(PREFIX): value for name, value in inputs.items() if name.startswith(PREFIX)}


def write_audit_settings(settings: Mapping[str, Any], notes: Iterable[str] = ()) -> bytes:
    """Every setting for any model and scenario: the file belongs to one cell, and the lines for any model are the only
    ones that LoadGen itself applies. What a round sets for one model is among ``settings`` already.

    Comments stand on lines of their own: LoadGen refuses a file with others.
    """
    lines = [f"# {' '.join(note.split())}".rstrip() for note in notes]
    lines += [f"*.*.{name} = {_text(value)}" for name, value in settings.items()]
    return "".join(f"{line}\n" for line in lines).encode()


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)

"""YAML in block style, written so that every reader takes each value for what it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

# What no YAML reader, of version 1.1 or 1.2, takes for anything but text.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9 _/.+-]*[A-Za-z0-9_/+-]|[A-Za-z]")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})


def write_yaml(values: Mapping[str, Any]) -> bytes:
    """A mapping of scalars, mappings and lists, in the order given. TypeError for anything else."""
    return "".join(f"{line}\n" for line in _mapping(values, "")).encode()


def _mapping(values: Mapping[Any, Any], indent: str) -> Iterator[str]:
    for name, value in values.items():
        yield from _entry(f"{indent}{_scalar(str(name))}:", value, indent)


def _entry(head: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        yield head
        yield from _mapping(value, f"{indent}  ")
    elif isinstance(value, (list, tuple)) and value:
        yield head
        yield from _items(value, f"{indent}  ")
    else:
        yield f"{head} {_scalar(value)}"


def _items(values: list[Any] | tuple[Any, ...], indent: str) -> Iterator[str]:
    for value in values:
        if isinstance(value, Mapping) and value:
            lines = list(_mapping(value, f"{indent}  "))
            yield f"{indent}- {lines[0].lstrip()}"
            yield from lines[1:]
        else:
            yield f"{indent}- {_scalar(value)}"


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, Decimal)):
        return str(value)
    if isinstance(value, float):
        return json.dumps(value)
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
        return value if plain else json.dumps(value, ensure_ascii=True)
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, (list, tuple)):
        return "[]"
    raise TypeError(f"{type(value).__name__} cannot be written as YAML")

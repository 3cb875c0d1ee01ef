"""Canonical JSON and digests: equal values have equal texts, so equal inputs have equal keys.

Quantities are integers in base units, decimals are strings without trailing zeros, floats are refused, mappings are
sorted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

_PLAIN = (int, bool, type(None))
_AS_THEY_ARE = frozenset({str, *_PLAIN})


_TEXT = frozenset({str})
_FAST = msgspec.json.Encoder(order="sorted")
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)

_DIGEST = re.compile("[0-9a-f]{64}")


def show_decimal(value: Decimal | int | str) -> str:
    """Return the same text for equal numbers: "54" for ``54``, ``54.0`` and ``5.4e1``."""
    number = Decimal(value)
    text = format(number.normalize(), "f")
    return "0" if number == 0 else text


def canonicalise(value: Any) -> Any:
    """Return the normal form for JSON. Raises TypeError for floats and anything that is not a value."""
    if type(value) in _AS_THEY_ARE:  # true for nearly every value; checked first for speed
        return value
    if isinstance(value, Decimal):
        return show_decimal(value)
    if isinstance(value, Mapping):
        return {str(name): canonicalise(item) for name, item in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [canonicalise(item) for item in value]
    if isinstance(value, str):
        return str(value)
    if isinstance(value, _PLAIN):
        return value
    raise TypeError(f"no canonical form for {type(value).__name__} {value!r}")


def encode_canonical_json(value: Any) -> bytes:
    """Encode canonical JSON. A pass computes a key for every resource. If no character needs escaping and no integer
    exceeds 64 bits, msgspec writes the same bytes several times as fast."""
    try:
        data = _FAST.encode(_simplify(value))
    except (OverflowError, UnicodeEncodeError, RecursionError):
        data = b"\\"
    return _ENCODER.encode(canonicalise(value)).encode() if b"\\" in data else data


def _simplify(value: Any) -> Any:
    """Return the normal form without sorting names, which the encoder does."""
    if type(value) is dict and _TEXT.issuperset(map(type, value)):
        if _AS_THEY_ARE.issuperset(map(type, value.values())):
            return value
        return {name: item if type(item) in _AS_THEY_ARE else _simplify(item) for name, item in value.items()}
    if type(value) is list:
        if _AS_THEY_ARE.issuperset(map(type, value)):
            return value
        return [item if type(item) in _AS_THEY_ARE else _simplify(item) for item in value]
    return canonicalise(value)


def is_digest(value: object) -> bool:
    """Return True for a SHA-256 as written by ``digest``."""
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def digest(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(encode_canonical_json(value)).hexdigest()

"""Convert structs to JSON and back: the only codec for stored data.

Every stored item is a frozen struct whose fields define its format. A new field with a default requires no change to
reader or writer, and is listed in the class's ``LEFT_OUT``. There are two forms. Records, attempts and decisions, which
people read and git stores, contain addresses as text; caches, which only this program reads, use msgspec directly.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from datetime import date
from decimal import Decimal
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from reconciler.resource.kinds import Address, Cell

T = TypeVar("T")

_TEXTS = (Address, Cell)  # types with ``parse`` and ``str``


class CodecError(ValueError):
    """A document does not match its type."""


def encode_canonical(document: Any) -> bytes:
    """Encode with sorted names and fixed indentation, so that equal documents have equal texts."""
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False).encode()


def make_document(value: Any) -> Any:
    """Return the JSON values of a struct and its nested structs."""
    if isinstance(value, _TEXTS):
        return str(value)
    if isinstance(value, Struct):
        values = {name: getattr(value, name) for name in value.__struct_fields__}
        later = _find_later_defaults(type(value))
        return {
            name: make_document(inner) for name, inner in values.items() if name not in later or inner != later[name]
        }
    if isinstance(value, Mapping):
        return {name: make_document(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [make_document(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Decimal):
        return str(value)
    return value.isoformat() if isinstance(value, date) else value


def make_versioned(version: int, value: Any) -> dict[str, Any]:
    """Return the JSON values of a struct after its format number."""
    return {"format": version, **make_document(value)}


@cache
def _find_later_defaults(of: type[Struct]) -> Mapping[str, Any]:
    """Find fields added later that have their defaults. These are omitted, so that older documents keep their bytes."""
    later = getattr(of, "LEFT_OUT", ())
    return {
        item.name: item.default if item.default_factory is NODEFAULT else item.default_factory()
        for item in (fields(of) if later else ())
        if item.name in later
    }


def read_document(document: Any, of: type[T]) -> T:
    """Read a document. Raises CodecError with the place in the document."""
    try:
        return msgspec.convert(_parse_addresses(document, of), of)
    except (msgspec.ValidationError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise CodecError(str(error)) from error


def _parse_addresses(document: Any, of: Any) -> Any:
    """Parse the addresses in a document wherever the type has one."""
    if of in _TEXTS:
        if not isinstance(document, str):
            raise TypeError(f"{document!r} is not an address")
        return of.parse(document)
    if document is None or not _holds_addresses(of):
        return document
    hints = _find_field_types(of)
    if hints and isinstance(document, Mapping):
        known = ((name, hints[name]) for name in _find_address_fields(of) if name in document)
        return {**document, **{name: _parse_addresses(document[name], hint) for name, hint in known}}
    inner = next((item for item in get_args(of) if _holds_addresses(item)), None)
    if get_origin(of) in (Union, UnionType):
        return _parse_addresses(document, inner)
    if isinstance(document, Mapping):
        return {name: _parse_addresses(item, inner) for name, item in document.items()}
    return [_parse_addresses(item, inner) for item in document] if isinstance(document, list) else document


@cache
def _find_field_types(of: Hashable) -> Mapping[str, Any]:
    return get_type_hints(of) if isinstance(of, type) and issubclass(of, Struct) else {}


@cache
def _find_address_fields(of: Hashable) -> tuple[str, ...]:
    return tuple(name for name, values in _find_field_types(of).items() if _holds_addresses(values))


@cache
def _holds_addresses(of: Hashable) -> bool:
    inner = _find_field_types(of).values() or get_args(of)
    return of in _TEXTS or any(map(_holds_addresses, inner))


def encode_json(value: Any) -> bytes:
    """Encode for a cache, on one line. Raises CodecError for a path or variable whose bytes are not text."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError as error:
        raise CodecError(str(error)) from error


def decode_json(data: bytes, of: Any) -> Any:
    """Decode JSON. Raises CodecError."""
    try:
        return msgspec.json.decode(data, type=of)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise CodecError(str(error)) from error


def encode_packed(value: Any) -> bytes:
    """Encode a large cache as MessagePack, which is read twice as fast as JSON; integers are limited to 64 bits."""
    return msgspec.msgpack.encode(value)


def decode_packed(data: bytes, of: type[T]) -> T:
    """Decode MessagePack. Raises CodecError."""
    try:
        return msgspec.msgpack.decode(data, type=of)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise CodecError(str(error)) from error

"""JSON objects and YAML mappings of other programs, with the lines of their names."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cached_property
from io import StringIO
from typing import Any

from msgspec import Struct
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from reconciler.storage.json_files import parse_json

_JSON_KEY = re.compile(r'"([^"\\]{1,80})"\s*:')
_COLON = re.compile(r'"\s*+:')  # behind each key of JSON
# Digits as zeros, of which a long number is a row: found in a tenth of the time that a shape of digits takes.
_DIGITS, _YAML_DIGITS = (
    bytes.maketrans(digits, b"0" * len(digits)) for digits in (b"123456789", b"123456789ABCDEFabcdef_")
)
_LONG, _MOST_BITS = b"0" * 301, 1200  # fewer digits have no more bits, hexadecimal ones neither
_YAML_KEY = re.compile(r"([\w.-]{1,80})\s*:")


class ResultDocument(Struct, frozen=True, dict=True):
    """A JSON object or YAML mapping, of ``text``, whose names are of a shape. ``repeated``: names that one object has
    twice or more, with the first and the last value, of which the last counts; YAML has none."""

    values: Mapping[str, Any]
    text: str = ""
    shape: re.Pattern[str] = _JSON_KEY
    repeated: tuple[tuple[str, Any, Any], ...] = ()

    @cached_property
    def lines(self) -> Mapping[str, int]:
        """The 1-based line where a name is first a key, at any depth: asked for problems alone."""
        return _lines(self.text, self.shape)

    def get(self, name: str) -> Any:
        return self.values.get(name)

    def get_nested(self, *names: str) -> Any:
        """A nested value, None where any step is missing."""
        found: Any = self.values
        for name in names:
            if not isinstance(found, Mapping):
                return None
            found = found.get(name)
        return found


def parse_json_object(data: bytes, _: str = "") -> ResultDocument:
    """A JSON object. ValueError (JSONDecodeError with its line) otherwise."""
    content = data.decode("utf-8-sig")
    document = parse_json(content)
    _refuse_long_numbers(_DIGITS, data, document)
    if not isinstance(document, dict):
        raise ValueError(f"it holds {_kind(document)}, not an object")
    return ResultDocument(document, content, repeated=_find_repeated(content, document))


def parse_yaml_mapping(data: bytes, _: str = "") -> ResultDocument:
    """A YAML mapping. ValueError otherwise."""
    content = data.decode("utf-8")
    try:
        document = YAML(typ="safe").load(StringIO(content))
    except YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    except RecursionError as error:
        raise ValueError("its brackets are nested too deeply") from error
    _refuse_long_numbers(_YAML_DIGITS, data, document)
    if not isinstance(document, dict):
        raise ValueError(f"it holds {_kind(document)}, not a mapping")
    return ResultDocument({str(name): item for name, item in document.items()}, content, _YAML_KEY)


def _find_repeated(content: str, document: Any) -> tuple[tuple[str, Any, Any], ...]:
    """Read a second time only where more keys are written than the document has."""
    left, count = [document], 0
    while left:
        found = left.pop()
        if isinstance(found, dict):
            count += len(found)
            left += found.values()
        elif isinstance(found, list):
            left += found
    if len(_COLON.findall(content)) <= count:
        return ()
    repeated: list[tuple[str, Any, Any]] = []

    def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, value in pairs:
            first = made.setdefault(name, value)
            if first is not value and first != value:
                repeated.append((name, first, value))
        return {**made, **dict(pairs)}

    try:
        json.loads(content, object_pairs_hook=note)
    except (ValueError, RecursionError):  # what half a character or many brackets are, its reader says
        return ()
    return tuple(repeated)


def _refuse_long_numbers(digits: bytes, data: bytes, document: Any) -> None:
    """ValueError for an integer too long to compute with, or to show: a hexadecimal one may have any length.
    ``digits``: those that it may have, as zeros."""
    left, seen = [document] if _LONG in data.translate(digits) else [], set[int]()
    while left:
        found = left.pop()
        if isinstance(found, int) and found.bit_length() > _MOST_BITS:
            raise ValueError("a number has hundreds of digits")
        if isinstance(found, (dict, list)) and id(found) not in seen:  # YAML's aliases may lead back
            seen.add(id(found))
            left += [*found, *found.values()] if isinstance(found, dict) else found


def _lines(content: str, shape: re.Pattern[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for line, row in enumerate(content.split("\n"), start=1):
        for match in shape.finditer(row):
            found.setdefault(match[1], line)
    return found


def _kind(document: Any) -> str:
    return {list: "a list", str: "text", type(None): "nothing"}.get(type(document), "a single value")

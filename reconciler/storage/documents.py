"""JSON objects and YAML mappings of other programs, with the line numbers of their keys."""

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
_COLON = re.compile(r'"\s*+:')  # after each key of JSON
# Digits are replaced by zeros, so that a long number is a run of zeros, which is found in a tenth of the time that a
# pattern for digits takes.
_DIGITS, _YAML_DIGITS = (
    bytes.maketrans(digits, b"0" * len(digits)) for digits in (b"123456789", b"123456789ABCDEFabcdef_")
)
_LONG, _MOST_BITS = b"0" * 301, 1200  # fewer digits have no more bits, even hexadecimal ones
_YAML_KEY = re.compile(r"([\w.-]{1,80})\s*:")


class ResultDocument(Struct, frozen=True, dict=True):
    """A JSON object or YAML mapping parsed from ``text``. ``repeated``: keys that occur more than once in one object,
    each with its first and its last value (the last one counts); empty for YAML."""

    values: Mapping[str, Any]
    text: str = ""
    shape: re.Pattern[str] = _JSON_KEY
    repeated: tuple[tuple[str, Any, Any], ...] = ()

    @cached_property
    def lines(self) -> Mapping[str, int]:
        """The 1-based line where each name first occurs as a key, at any depth; computed only for messages about
        problems."""
        found: dict[str, int] = {}
        for line, row in enumerate(self.text.split("\n"), start=1):
            for match in self.shape.finditer(row):
                found.setdefault(match[1], line)
        return found

    def get(self, name: str) -> Any:
        return self.values.get(name)

    def get_nested(self, *names: str) -> Any:
        """Return a nested value, None if any step is missing."""
        found: Any = self.values
        for name in names:
            if not isinstance(found, Mapping):
                return None
            found = found.get(name)
        return found


def parse_json_object(data: bytes, _: str = "") -> ResultDocument:
    """Parse a JSON object. Raises ValueError (JSONDecodeError with its line) for anything else."""
    content = data.decode("utf-8-sig")
    document = parse_json(content)
    _refuse_long_numbers(_DIGITS, data, document)
    if not isinstance(document, dict):
        raise ValueError(f"it contains {_describe_type(document)}, not an object")
    return ResultDocument(document, content, repeated=_find_repeated(content, document))


def parse_yaml_mapping(data: bytes, _: str = "") -> ResultDocument:
    """Parse a YAML mapping. Raises ValueError for anything else."""
    content = data.decode("utf-8")
    try:
        document = YAML(typ="safe").load(StringIO(content))
    except YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    except RecursionError as error:
        raise ValueError("its brackets are nested too deeply") from error
    _refuse_long_numbers(_YAML_DIGITS, data, document)
    if not isinstance(document, dict):
        raise ValueError(f"it contains {_describe_type(document)}, not a mapping")
    return ResultDocument({str(name): item for name, item in document.items()}, content, _YAML_KEY)


def _find_repeated(content: str, document: Any) -> tuple[tuple[str, Any, Any], ...]:
    """Find repeated keys. Parses a second time only if the text has more keys than the document."""
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
    except (ValueError, RecursionError):  # the JSON reader reports half a character or too many brackets
        return ()
    return tuple(repeated)


def _refuse_long_numbers(digits: bytes, data: bytes, document: Any) -> None:
    """Raise ValueError for an integer that is too long to compute with or show, because a hexadecimal one may have any
    length. ``digits``: the text with digits replaced by zeros."""
    left, seen = [document] if _LONG in data.translate(digits) else [], set[int]()
    while left:
        found = left.pop()
        if isinstance(found, int) and found.bit_length() > _MOST_BITS:
            raise ValueError("a number has hundreds of digits")
        if isinstance(found, (dict, list)) and id(found) not in seen:  # YAML aliases may be circular
            seen.add(id(found))
            left += [*found, *found.values()] if isinstance(found, dict) else found


def _describe_type(document: Any) -> str:
    return {list: "a list", str: "text", type(None): "nothing"}.get(type(document), "a single value")

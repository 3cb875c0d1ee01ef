"""Template texts of a harness command: placeholders in braces, and conditional parts.

``{name}`` is replaced with a value. As in a shell, ``{name:+text}`` is replaced with the text if the value is not
empty, if the run has that mode or scenario, or if the system's name ends in it, and with nothing otherwise; the text
may contain both forms. ``{{name}}`` produces ``{name}`` itself. After a ``$``, a conditional part is left to the shell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

_TOKEN = re.compile(
    r"\{\{(?P<literal>[a-z_]+)\}\}|(?<![{$])\{(?P<condition>[A-Za-z_]+):\+|(?<!\{)\{(?P<name>[a-z_]+)\}|(?P<end>\})"
)


class Placeholder(Struct, frozen=True):
    name: str


class Conditional(Struct, frozen=True):
    name: str
    parts: tuple[Part, ...]


Part = str | Placeholder | Conditional


class OpenConditionError(ValueError):
    """A conditional part without a closing brace."""


def parse_template(text: str) -> tuple[Part, ...]:
    """Split a text into its parts. Raises OpenConditionError."""
    parts, end = _parse(text, 0, inside=False)
    assert end == len(text)
    return parts


def _parse(text: str, position: int, *, inside: bool) -> tuple[tuple[Part, ...], int]:
    parts: list[Part] = []
    begun = position
    while (found := _TOKEN.search(text, position)) is not None:
        position = found.end()
        if found["end"]:
            if inside:
                return (*parts, text[begun : found.start()]), position
            continue
        # Outside a conditional part, {name}} is plain text, as it was before conditional parts existed.
        if found["name"] and not inside and text[position : position + 1] == "}":
            continue
        parts.append(text[begun : found.start()])
        if found["condition"]:
            within, position = _parse(text, position, inside=True)
            parts.append(Conditional(found["condition"], within))
        else:
            parts.append(Placeholder(found["name"]) if found["name"] else f"{{{found['literal']}}}")
        begun = position
    if inside:
        raise OpenConditionError(text)
    return (*parts, text[begun:]), len(text)


def list_placeholders(parts: Iterable[Part]) -> Iterator[Placeholder | Conditional]:
    """Yield all placeholders, including nested ones."""
    for part in parts:
        if not isinstance(part, str):
            yield part
        if isinstance(part, Conditional):
            yield from list_placeholders(part.parts)


def fill_placeholders(text: str, values: Mapping[str, str]) -> str:
    """Fill in a text. ``values`` also contains the names of the run's mode and scenario."""
    return _fill(parse_template(text), values)


def _fill(parts: Iterable[Part], values: Mapping[str, str]) -> str:
    texts = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Placeholder):
            texts.append(values.get(part.name, ""))
        elif values.get(part.name):
            texts.append(_fill(part.parts, values))
    return "".join(texts)


def fill_words(texts: Iterable[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Fill in the words of a command, and drop words that their conditional parts leave empty."""
    parsed = map(parse_template, texts)
    filled = ((_fill(parts, values), any(isinstance(part, Conditional) for part in parts)) for parts in parsed)
    return tuple([word for word, is_conditional in filled if word or not is_conditional])

"""Takes entries out of a user's spec, or moves them to another place in it, comments and all.

An entry in block style takes its own lines along: those of its value, and the comments right above it. What is left
empty by it goes too. The result is read again, and refused unless it differs in exactly this.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from ruamel.yaml.nodes import MappingNode

from reconciler.errors import SpecError
from reconciler.spec.edit import EditError, compose, find_deepest, find_end, insert, read, render_value


class _Entry(Struct, frozen=True):
    """``start`` and ``end``: the span of text to cut. ``lines``: it, when it is on lines of its own."""

    start: int
    end: int
    column: int
    lines: str = ""


def remove(text: str, path: Sequence[str], keep: int = 1) -> str:
    """``text`` without the entry at ``path``, and without groups above it that would be empty, down to the first
    ``keep`` names. Raises EditError, and SpecError for a text that is not YAML."""
    names = _pruned(compose(text), path, keep)
    entry = _entry(text, names)
    edited = text[: entry.start] + text[entry.end :]
    expected = read(text)
    _take(expected, names)
    _same(expected, edited)
    return edited


def move(text: str, source: Sequence[str], target: Sequence[str], keep: int = 1) -> str:
    """``text`` with the entry at ``source`` at ``target`` instead; groups on the way are added and removed."""
    document = read(text)
    value = _at(document, source)
    block = _entry(text, list(source))
    # First in, then out: so the group that both share is never empty between.
    added = _put(text, list(target), block, value)
    edited = remove(added, source, keep)
    expected = document
    _take(expected, _pruned(compose(added), source, keep))
    holder = expected
    for name in target[:-1]:
        holder[name] = holder.get(name) or {}
        holder = holder[name]
    holder[target[-1]] = value
    _same(expected, edited)
    return edited


def _pruned(root: MappingNode, path: Sequence[str], keep: int) -> list[str]:
    names = list(path)
    while len(names) - 1 > keep:
        holder, depth = find_deepest(root, names[:-1])
        if depth != len(names) - 1 or not isinstance(holder, MappingNode):
            raise EditError(f"there is no {'.'.join(path)}")
        if len(holder.value) > 1:
            break
        names.pop()
    return names


def _entry(text: str, names: Sequence[str]) -> _Entry:
    holder, depth = find_deepest(compose(text), names[:-1])
    if depth != len(names) - 1 or not isinstance(holder, MappingNode):
        raise EditError(f"there is no {'.'.join(names)}")
    index = next((i for i, (key, _) in enumerate(holder.value) if key.value == names[-1]), -1)
    if index < 0:
        raise EditError(f"there is no {'.'.join(names)}")
    key, value = holder.value[index]
    start, column = int(key.start_mark.index), int(key.start_mark.column)
    if holder.flow_style:
        return _flow_entry(holder, index, start)
    end = text.find("\n", find_end(value, key))
    end = len(text) if end < 0 else end + 1
    start = _with_comments(text, start - column, column)
    return _Entry(start, end, column, text[start:end])


def _flow_entry(holder: MappingNode, index: int, start: int) -> _Entry:
    """With the comma that parts it from its neighbour."""
    key, value = holder.value[index]
    if index + 1 < len(holder.value):
        return _Entry(start, int(holder.value[index + 1][0].start_mark.index), 0)
    if index:
        before = holder.value[index - 1]
        start = find_end(before[1], before[0])
    return _Entry(start, find_end(value, key), 0)


def _with_comments(text: str, start: int, column: int) -> int:
    """Find where the comment lines right above a line begin, as far as they are indented like it."""
    while start:
        before = text.rfind("\n", 0, start - 1) + 1
        if not text[before:start].startswith(f"{' ' * column}#"):
            break
        start = before
    return start


def _put(text: str, target: list[str], entry: _Entry, value: Any) -> str:
    node, depth = find_deepest(compose(text), target)
    if depth == len(target):
        raise EditError(f"{'.'.join(target)} is there already")
    if not entry.lines or not isinstance(node, MappingNode) or node.flow_style or not node.value:
        inner: Any = value if isinstance(value, Mapping) else {}
        for name in reversed(target[depth + 1 :]):
            inner = {name: inner}
        return insert(text, node, target[depth], inner)
    column, newline = int(node.value[0][0].start_mark.column), "\r\n" if "\r\n" in text else "\n"
    lines = []
    for name in target[depth:-1]:
        lines.append(f"{' ' * column}{render_value(name)}:{newline}")
        column += 2
    end = text.find("\n", find_end(node))
    head = text if end < 0 else text[: end + 1]
    head += "" if head.endswith("\n") else newline
    return head + "".join(lines) + _indented(entry, column, newline) + text[len(head) :]


def _indented(entry: _Entry, column: int, newline: str) -> str:
    lines = entry.lines.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += newline
    return "".join(" " * column + line[entry.column :] if line.strip() else line for line in lines)


def _at(document: Any, names: Sequence[str]) -> Any:
    for name in names:
        if not isinstance(document, dict) or name not in document:
            raise EditError(f"there is no {'.'.join(names)}")
        document = document[name]
    return copy.deepcopy(document)


def _take(document: Any, names: Sequence[str]) -> None:
    for name in names[:-1]:
        document = document[name]
    del document[names[-1]]


def _same(expected: Any, edited: str) -> None:
    try:
        found = read(edited)
    except SpecError as error:
        raise EditError(f"the edit would break the file: {error}") from error
    if _plain(found) != _plain(expected):
        raise EditError("the edit would change more than this entry (is it shared by an alias?)")


def _plain(value: Any) -> Any:
    """An empty group is one however it is written."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()} or None
    return value

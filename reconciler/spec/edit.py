"""Edit a user's spec and keep every other byte: comments, order, quotes, indentation and line ends.

ruamel.yaml locates a value; only that span of the text is replaced, or one line (one entry of a ``{…}``) is added. The
result is read again, and refused unless it differs from the original in exactly the requested value.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

from msgspec import Struct
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode

from reconciler.errors import SpecError
from reconciler.spec.nodes import Number, convert_plain, parse, resolve

# `fmt`: a standard format for specs. It changes only insignificant text, so the result must read the same.

_BLOCK_TEXT = re.compile(r":[ \t]*[|>][-+0-9]*[ \t]*(#.*)?$", re.MULTILINE)


def format_spec(text: str, name: str) -> str:
    """Format a spec. A text with block scalars (``|``, ``>``) keeps its lines, since their spaces are significant.
    Raises SpecError for a text that is not YAML."""
    tree, problems = parse(text, name)
    if tree is None or problems:
        raise SpecError(problems)
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    if _BLOCK_TEXT.search(plain):
        return f"{plain.rstrip()}\n"
    # "#comment" on its own line becomes "# comment"; modelines and shebangs are unchanged.
    lines = [re.sub(r"^( *)#([^\s#!].*)$", r"\1# \2", line.rstrip()) for line in plain.split("\n")]
    kept = [line for before, line in pairwise(["", *lines]) if line or before]
    formatted = "\n".join(kept).rstrip("\n") + "\n"
    return formatted if read(formatted) == read(text) else text


# Remove or move entries of a user's spec, with their comments. An entry in block style includes the lines of its value
# and the comments directly above it. Groups that become empty are removed as well. The result is read again, and
# refused unless it differs in exactly this.


class _Entry(Struct, frozen=True):
    """``start`` and ``end``: the span of text to cut. ``lines``: its text, if the entry has its own lines."""

    start: int
    end: int
    column: int
    lines: str = ""


def remove(text: str, path: Sequence[str], keep: int = 1) -> str:
    """Remove the entry at ``path`` from ``text``, and groups above it that become empty, except for the first ``keep``
    names. Raises EditError, and SpecError for a text that is not YAML."""
    names = _find_outermost(compose(text), path, keep)
    entry = _find_entry(text, names)
    edited = text[: entry.start] + text[entry.end :]
    expected = read(text)
    _remove_at(expected, names)
    _require_same(expected, edited)
    return edited


def move(text: str, source: Sequence[str], target: Sequence[str], keep: int = 1) -> str:
    """Move the entry at ``source`` to ``target``; add missing groups, and remove those that become empty."""
    document = read(text)
    value = _copy_at(document, source)
    block = _find_entry(text, list(source))
    # Insert first, then remove, so that a group that both paths share never becomes empty.
    added = _put_entry(text, list(target), block, value)
    edited = remove(added, source, keep)
    expected = document
    _remove_at(expected, _find_outermost(compose(added), source, keep))
    _set_at(expected, target, value)
    _require_same(expected, edited)
    return edited


def _find_outermost(root: MappingNode, path: Sequence[str], keep: int) -> list[str]:
    names = list(path)
    while len(names) - 1 > keep:
        holder, depth = find_deepest(root, names[:-1])
        if depth != len(names) - 1 or not isinstance(holder, MappingNode):
            raise EditError(f"not found: {'.'.join(path)}")
        if len(holder.value) > 1:
            break
        names.pop()
    return names


def _find_entry(text: str, names: Sequence[str]) -> _Entry:
    holder, depth = find_deepest(compose(text), names[:-1])
    entries = holder.value if depth == len(names) - 1 and isinstance(holder, MappingNode) else []
    index = next((i for i, (key, _) in enumerate(entries) if key.value == names[-1]), -1)
    if index < 0:
        raise EditError(f"not found: {'.'.join(names)}")
    key, value = entries[index]
    start, column = int(key.start_mark.index), int(key.start_mark.column)
    if holder.flow_style:  # include the comma between the entry and its neighbour
        if index + 1 < len(entries):
            return _Entry(start, int(entries[index + 1][0].start_mark.index), 0)
        before_key, before = entries[index - 1]
        return _Entry(_find_end(before, before_key) if index else start, _find_end(value, key), 0)
    end = text.find("\n", _find_end(value, key))
    end = len(text) if end < 0 else end + 1
    start -= column
    while start:  # include the comment lines directly above, with the same indentation
        before_line = text.rfind("\n", 0, start - 1) + 1
        if not text[before_line:start].startswith(f"{' ' * column}#"):
            break
        start = before_line
    return _Entry(start, end, column, text[start:end])


def _put_entry(text: str, target: list[str], entry: _Entry, value: Any) -> str:
    node, depth = find_deepest(compose(text), target)
    if depth == len(target):
        raise EditError(f"{'.'.join(target)} already exists")
    if not entry.lines or not isinstance(node, MappingNode) or node.flow_style or not node.value:
        return _insert_entry(text, node, target[depth:], value if isinstance(value, Mapping) else {})
    column, lines = _find_column(node), []
    for name in target[depth:-1]:
        lines.append(f"{' ' * column}{render_value(name)}:")
        column += _INDENT
    own = entry.lines.replace("\r\n", "\n").removesuffix("\n").split("\n")
    lines += [" " * column + line[entry.column :] if line.strip() else line for line in own]
    return _add_lines(text, node, lines)


def _copy_at(document: Any, names: Sequence[str]) -> Any:
    for name in names:
        if not isinstance(document, dict) or name not in document:
            raise EditError(f"not found: {'.'.join(names)}")
        document = document[name]
    return copy.deepcopy(document)


def _remove_at(document: Any, names: Sequence[str]) -> None:
    for name in names[:-1]:
        document = document[name]
    del document[names[-1]]


def _set_at(document: Any, names: Sequence[str], value: Any) -> None:
    """Set a value, as it is read back; add the groups that are missing."""
    for name in names[:-1]:
        document[name] = document.get(name) or {}
        document = document[name]
    document[names[-1]] = value


def _require_same(expected: Any, edited: str) -> None:
    """Raise EditError unless the edited text reads as expected (aliases could change other entries)."""
    try:
        found = read(edited)
    except SpecError as error:
        raise EditError(f"the edit would break the file: {error}") from error
    if _normalise_empty(found) != _normalise_empty(expected):
        raise EditError("the edit would change more than this entry (is it shared by an alias?)")


def _normalise_empty(value: Any) -> Any:
    """Convert every spelling of an empty group to None."""
    if isinstance(value, dict):
        return {name: _normalise_empty(item) for name, item in value.items()} or None
    return value


Scalar = str | int | bool | Decimal
New = Scalar | Mapping[str, Any] | Sequence[Any]

_INDENT = 2
_SAFE = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+() -]*")
_RAW = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


class EditError(ValueError):
    """The edit cannot be made by changing one place; the message explains why."""


def set_value(text: str, path: str | Sequence[str], value: New) -> str:
    """Return ``text`` with the value at ``path`` replaced, or added with the groups it needs.

    ``path``: a sequence of names, or dotted text; in dotted text, names that contain dots are recognised if they exist.
    A mapping or list is written on one line, as ``{name: value}``. Raises EditError, and SpecError for a text that is
    not YAML.
    """
    expected = read(text)
    root = compose(text)
    names = list(path) if not isinstance(path, str) else _split_path(root, path)
    node, depth = find_deepest(root, names)
    if depth == len(names):
        edited = _replace_node(text, node, value)
    else:
        edited = _insert_entry(text, node, names[depth:], value)
    _set_at(expected, names, _convert_plain(value))
    _require_same(expected, edited)
    return edited


def add_group(text: str, names: Sequence[str], group: Mapping[str, Any]) -> str:
    """Add a group on separate lines if the group above it has such lines, or else on one line. Raises EditError,
    SpecError."""
    node, depth = find_deepest(compose(text), names)
    if depth != len(names) - 1 or not isinstance(node, MappingNode) or node.flow_style or not node.value:
        return set_value(text, names, group)
    expected, edited = read(text), _add_lines(text, node, render_group_lines(names[-1], group, _find_column(node)))
    _set_at(expected, names, _convert_plain(group))
    _require_same(expected, edited)
    return edited


def render_group_lines(name: str, value: Any, column: int = 0) -> list[str]:
    """Render a group as YAML on separate lines."""
    space = " " * column
    if not isinstance(value, Mapping):
        return [f"{space}{render_value(name)}: {render_value(value)}"]
    inside = [line for key, item in value.items() for line in render_group_lines(key, item, column + _INDENT)]
    return [f"{space}{render_value(name)}:", *inside]


def append_values(text: str, path: Sequence[str], values: Sequence[int]) -> str:
    """Append ``values`` to the list at ``path``, in the list's own style. A single value becomes a list with them; a
    mapping gets an empty entry for each. Raises EditError, SpecError."""
    expected = read(text)
    node, depth = find_deepest(compose(text), path)
    if depth < len(path) or _is_empty(node):
        raise EditError(f"no value at {'.'.join(path)}")
    if isinstance(node, MappingNode):
        edited = text
        for value in values:
            node, _ = find_deepest(compose(edited), path)
            edited = _insert_entry(edited, node, [Number(value)], {})
            _set_at(expected, [*path, str(value)], {})
        _require_same(expected, edited)
        return edited
    start, listed = node.start_mark.index, ", ".join(map(str, values))
    if isinstance(node, ScalarNode):
        end = node.end_mark.index
        edited = f"{text[:start]}[{text[start:end]}, {listed}]{text[end:]}"
    elif node.flow_style:
        last = _find_end(node.value[-1])
        edited = f"{text[:last]}, {listed}{text[last:]}"
    else:
        edited = _add_lines(text, node, [f"{' ' * node.start_mark.column}- {value}" for value in values])
    there = _copy_at(expected, path)
    _set_at(expected, path, [*(there if isinstance(there, list) else [there]), *map(str, values)])
    _require_same(expected, edited)
    return edited


def render_value(value: New) -> str:
    """Render a value as YAML on one line; text is quoted only if it would be read as something else."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{render_value(str(name))}: {render_value(item)}" for name, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(render_value, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, Decimal, Number)):
        return str(value)
    if _SAFE.fullmatch(value) and type(resolve(value)) is str and not value.endswith(" "):
        return value
    return _RAW.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))


def read(text: str) -> Any:
    """Read a text as plain values. Raises SpecError if it is not YAML."""
    tree, problems = parse(text, "the spec")
    if tree is None or problems:
        raise SpecError(problems)
    return convert_plain(tree)


def compose(text: str) -> MappingNode:
    """Read a text as nodes with their positions. Raises EditError if it is not a mapping."""
    try:
        node = YAML(typ="safe", pure=True).compose(text)
    except YAMLError as error:
        raise EditError(f"the text cannot be edited: {error}") from error
    if not isinstance(node, MappingNode):
        raise EditError("the text is empty")
    return node


def _find_child(node: Any, name: str) -> Any:
    if not isinstance(node, MappingNode):
        return None
    return next((value for key, value in node.value if getattr(key, "value", None) == name), None)


def _split_path(root: MappingNode, path: str) -> list[str]:
    """Split a dotted path into names: at each step the longest name that exists."""
    names: list[str] = []
    node: Any = root
    rest = path
    while rest:
        there = [key.value for key, _ in node.value] if isinstance(node, MappingNode) else []
        fitting = [name for name in there if rest == name or rest.startswith(f"{name}.")]
        name = max(fitting, key=len) if fitting else rest.partition(".")[0]
        names.append(name)
        node, rest = _find_child(node, name), rest[len(name) + 1 :]
    return names


def find_deepest(root: MappingNode, names: Sequence[str]) -> tuple[Any, int]:
    """Return the node at the longest existing part of ``names``, and that part's length."""
    node: Any = root
    for depth, name in enumerate(names):
        child = _find_child(node, name)
        if child is None:
            return node, depth
        node = child
    return node, len(names)


def _is_empty(node: Any) -> bool:
    return isinstance(node, ScalarNode) and node.start_mark.index == node.end_mark.index


def _replace_node(text: str, node: Any, value: New) -> str:
    if _is_empty(node):
        return _fill_empty(text, node, value)
    if not isinstance(node, ScalarNode) or node.style in ("|", ">"):
        raise EditError(f"line {node.start_mark.line + 1}: only a value on one line can be replaced")
    written = render_value(value)
    quoted = text[node.start_mark.index] in "\"'"
    if quoted and isinstance(value, str) and not written.startswith('"'):
        mark = text[node.start_mark.index]
        written = f"{mark}{written}{mark}"
    return text[: node.start_mark.index] + written + text[node.end_mark.index :]


def _fill_empty(text: str, node: Any, value: New) -> str:
    """Add a value to a ``name:`` without one, or to a bare name, as in ``{Offline, Server}``."""
    index = node.start_mark.index
    while text[index - 1] in " \t\r\n":
        index -= 1
    colon = "" if text[index - 1] == ":" else ":"
    return f"{text[:index]}{colon} {render_value(value)}{text[index:]}"


def _insert_entry(text: str, node: Any, names: Sequence[str], value: New) -> str:
    """Add a value below ``names`` to a mapping, in the mapping's own style."""
    name, *groups = names
    for inner in reversed(groups):
        value = {inner: value}
    if _is_empty(node):
        return _fill_empty(text, node, {name: value})
    if not isinstance(node, MappingNode):
        raise EditError(f"line {node.start_mark.line + 1}: cannot add '{name}': there is already a value")
    entry = f"{render_value(name)}: {render_value(value)}"
    if node.flow_style:
        index = _find_end(node.value[-1][1], node.value[-1][0]) if node.value else node.start_mark.index + 1
        return f"{text[:index]}{', ' if node.value else ''}{entry}{text[index:]}"
    return _add_lines(text, node, [f"{' ' * _find_column(node)}{entry}"])


def _add_lines(text: str, node: Any, lines: Sequence[str]) -> str:
    """Add lines below a node in block style, with the line ends of the text."""
    newline = "\r\n" if "\r\n" in text else "\n"
    place = text.find("\n", _find_end(node)) + 1
    head = text[:place] or f"{text}{newline}"
    return head + "".join(f"{line}{newline}" for line in lines) + (text[place:] if place else "")


def _find_column(node: MappingNode) -> int:
    return int(node.value[0][0].start_mark.column)


def _find_end(node: Any, key: Any = None) -> int:
    """Find the end of the node's own text, since the parser's end mark of a block is after the comments that follow."""
    if _is_empty(node) and key is not None:
        return int(key.end_mark.index) + 1
    if isinstance(node, MappingNode) and not node.flow_style and node.value:
        last_key, last = node.value[-1]
        return _find_end(last, last_key)
    if not isinstance(node, (MappingNode, ScalarNode)) and not node.flow_style and node.value:
        return _find_end(node.value[-1])
    index = int(node.end_mark.index)
    return index - 1 if getattr(node, "style", None) in ("|", ">") else index


def _convert_plain(value: Any) -> Any:
    """Convert a new value to the form in which it is read back."""
    if isinstance(value, Mapping):
        return {str(name): _convert_plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_convert_plain(item) for item in value]
    return value if isinstance(value, bool) else str(value)

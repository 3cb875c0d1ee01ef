"""Convert YAML text to plain nodes with their file, line and column.

The C parser's events are converted without recursion, so that hostile nesting or aliases cannot exhaust stack or
memory. Scalars follow YAML 1.2: ``No``, ``on`` and ``yes`` are text. A number keeps its original text. A merge key
(``<<``) is replaced by the entries that it merges, which keep their places.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct, field
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from reconciler.errors import Problem
from reconciler.resource.inputs import Origin
from reconciler.spec.syntax import (
    explain_lookalike,
    explain_space,
    find_odd_space,
    find_typographic_quote,
    make_syntax_problem,
    parse_events,
)

DEEPEST = 40
MOST_ALIASED = 100_000
_MERGE = "<<"

_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?")
_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_TEXT_TAGS = ("!", "tag:yaml.org,2002:str")


class Number(str):
    """An unquoted number, with its original text."""

    __slots__ = ()


class ScalarNode(Struct, frozen=True, eq=False):
    value: str | bool | None
    origin: Origin


class ListNode(Struct, frozen=True, eq=False):
    origin: Origin
    items: list[Node] = field(default_factory=list)


class MapNode(Struct, frozen=True, eq=False):
    """``keys``: the place of each key; ``origin``: the place where the mapping begins."""

    origin: Origin
    items: dict[str, Node] = field(default_factory=dict)
    keys: dict[str, Origin] = field(default_factory=dict)


Node = ScalarNode | ListNode | MapNode


def convert_plain(node: Node) -> Any:
    """Convert a node to dictionaries, lists and scalars. Nesting is bounded by ``DEEPEST``, so recursion is safe."""
    if isinstance(node, MapNode):
        return {name: convert_plain(item) for name, item in node.items.items()}
    if isinstance(node, ListNode):
        return [convert_plain(item) for item in node.items]
    return node.value


def resolve(text: str) -> str | bool | None:
    """Resolve an unquoted scalar as YAML 1.2 does."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    return Number(text) if _NUMBER.fullmatch(text) else text


def parse(text: str, file: str) -> tuple[MapNode | None, list[Problem]]:
    """Return the root mapping of a document; None if the file cannot be used at all."""
    builder = _Builder(file)
    try:
        for event in parse_events(text):
            builder.take(event)
    except (MarkedYAMLError, YAMLError, UnicodeError) as error:
        if builder.begins_odd:  # a space that the parser takes for a letter changes what it expects in the next line
            return None, builder.problems
        return None, [*builder.problems, make_syntax_problem(error, text, file)]
    except _TooMuch as stop:
        return None, [*builder.problems, stop.problem]
    return builder.finish()


class _TooMuch(Exception):  # noqa: N818 - it never leaves this module
    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class _Frame(Struct):
    """A collection being filled. ``key``: the latest key; ``dropped``: its value is discarded."""

    node: MapNode | ListNode
    size: int = 1
    key: str = ""
    key_origin: Origin | None = None
    awaits_key: bool = True
    dropped: bool = False


class _Builder:
    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self._root: Node | None = None
        self._frames: list[_Frame] = []
        self._anchors: dict[str, tuple[Node, int | None]] = {}
        self._names: dict[int, str] = {}
        self._aliased = 0
        self._documents = 0
        self.begins_odd = False  # a name begins with a character that only looks like a space

    def take(self, event: Any) -> None:
        kind = type(event)
        if kind is ScalarEvent:
            self._read_scalar(event)
        elif kind is MappingStartEvent or kind is SequenceStartEvent:
            self._open_collection(event, kind is MappingStartEvent)
        elif kind is MappingEndEvent or kind is SequenceEndEvent:
            self._close_collection()
        elif kind is AliasEvent:
            self._read_alias(event)
        elif kind is DocumentStartEvent:
            self._documents += 1
            if self._documents > 1:
                origin, fix = self._make_origin(event), "keep one document per file"
                raise _TooMuch(self._make_problem(origin, "the file contains a second document", fix))

    def finish(self) -> tuple[MapNode | None, list[Problem]]:
        root = self._root
        if root is None or (isinstance(root, ScalarNode) and root.value is None):
            return None, [Problem(self.file, 1, 1, "", "the file is empty", _WRITE_SPEC)]
        if not isinstance(root, MapNode):
            self._complain(root.origin, "the file contains no settings (name: value)", _WRITE_SPEC)
            return None, self.problems
        return root, self.problems

    def _read_scalar(self, event: Any) -> None:
        origin = self._make_origin(event)
        is_key, plainly = self._awaits_key(), event.style is None or event.style == ""
        if plainly and not event.value.isascii():
            self._check_characters(str(event.value), origin, key=is_key)
        if is_key:
            self._read_key(str(event.value), origin)
            return
        node = ScalarNode(resolve(event.value) if plainly and event.tag is None else str(event.value), origin)
        self._check_tag(event, origin)
        self._add_node(node, 1)
        if event.anchor:
            self._anchors[event.anchor] = (node, 1)

    def _awaits_key(self) -> bool:
        return bool(self._frames) and isinstance(self._frames[-1].node, MapNode) and self._frames[-1].awaits_key

    def _check_characters(self, text: str, origin: Origin, *, key: bool) -> None:
        """Check for characters that look like others. In quotes, all are allowed."""
        at, found = find_odd_space(text), None
        if at >= 0:
            self.begins_odd |= key and at == 0
            found = explain_space(text[at])
        elif mark := find_typographic_quote(text):
            at, found = 0, (f"{mark} is not a YAML quotation mark", "write \" or '")
        elif odd := explain_lookalike(text):
            at, found = odd[0], odd[1:]
        if found is not None:
            at = origin.column + ("\n" not in text) * at
            path = ".".join([frame.key for frame in self._frames[: -1 if key else None] if frame.key] + [text] * key)
            self.problems.append(Problem(self.file, origin.line, at, path, *found))

    def _open_collection(self, event: Any, mapping: bool) -> None:
        origin = self._make_origin(event)
        if len(self._frames) >= DEEPEST:
            message = f"values are nested more than {DEEPEST} deep"
            raise _TooMuch(self._make_problem(origin, message, "nest less deeply"))
        self._check_tag(event, origin)
        node: MapNode | ListNode = MapNode(origin) if mapping else ListNode(origin)
        self._add_node(node, 0)
        self._frames.append(_Frame(node))
        if event.anchor:
            self._anchors[event.anchor] = (node, None)
            self._names[id(node)] = event.anchor

    def _close_collection(self) -> None:
        frame = self._frames.pop()
        if isinstance(frame.node, MapNode) and _MERGE in frame.node.items:
            self._merge_groups(frame.node)
        name = self._names.pop(id(frame.node), None)
        if name is not None and self._anchors[name][0] is frame.node:
            self._anchors[name] = (frame.node, frame.size)
        if self._frames:
            self._frames[-1].size += frame.size

    def _merge_groups(self, node: MapNode) -> None:
        """Merge groups into a mapping, whose own names take precedence; of several groups, the first wins."""
        merged, origin = node.items.pop(_MERGE), node.keys.pop(_MERGE)
        groups = merged.items if isinstance(merged, ListNode) else [merged]
        refused = {(problem.line, problem.column) for problem in self.problems}
        if not all(isinstance(g, MapNode) or (g.origin.line, g.origin.column) in refused for g in groups):
            fix = "write '<<: *name' or '<<: [*one, *other]', with &name before a group above it"
            self._complain(origin, f"{_MERGE} merges groups of settings", fix)
        for group in groups:
            if isinstance(group, MapNode):
                node.keys.update((name, at) for name, at in group.keys.items() if name not in node.items)
                node.items.update((name, item) for name, item in group.items.items() if name not in node.items)

    def _read_alias(self, event: Any) -> None:
        origin = self._make_origin(event)
        node, size = self._anchors.get(event.anchor, (None, 0))
        if node is None:
            fix = f"put &{event.anchor} before a value above it"
            self._complain(origin, f"*{event.anchor} refers to an undefined anchor", fix)
        elif size is None:
            self._complain(origin, f"*{event.anchor} contains itself", "write the value instead of the alias")
        if self._awaits_key():
            self._read_key(str(node.value) if isinstance(node, ScalarNode) else f"*{event.anchor}", origin)
            return
        self._aliased += size or 0
        if self._aliased > MOST_ALIASED:
            message = f"aliases expand to more than {MOST_ALIASED} values"
            fix = "write the values themselves, or share them through spec.defaults"
            raise _TooMuch(self._make_problem(origin, message, fix))
        self._add_node(ScalarNode(None, origin) if node is None or size is None else node, size or 1)

    def _read_key(self, name: str, origin: Origin) -> None:
        frame, name = self._frames[-1], name if name.isprintable() else ascii(name)
        assert isinstance(frame.node, MapNode)
        frame.key, frame.key_origin, frame.awaits_key = name, origin, False
        frame.dropped = name in frame.node.items
        if frame.dropped:
            first = frame.node.keys[name]
            message = f"{name} is a duplicate of line {first.line}"
            self._complain(origin, message, f"keep one of the two (lines {first.line} and {origin.line})")

    def _add_node(self, node: Node, size: int) -> None:
        """Add a scalar, or the start of a collection, to the enclosing collection."""
        if not self._frames:
            self._root = node
            return
        frame = self._frames[-1]
        frame.size += size
        if isinstance(frame.node, ListNode):
            frame.node.items.append(node)
        elif frame.awaits_key:
            frame.key, frame.awaits_key, frame.dropped = "", False, True
            at, below = frame.node.origin, node.origin
            if isinstance(node, MapNode) and (below.line, below.column) == (at.line, at.column + 1):
                self._complain(frame.node.origin, "'{{' starts a template, which is not supported", _WRITE_VALUE)
            else:
                self._complain(node.origin, "expected a name, found a list or group", _WRITE_NAME)
            frame.key = "?"
        else:
            frame.awaits_key = True
            if not frame.dropped:
                frame.node.items[frame.key] = node
                frame.node.keys[frame.key] = frame.key_origin or node.origin

    def _check_tag(self, event: Any, origin: Origin) -> None:
        if event.tag is not None and event.tag not in _TEXT_TAGS:
            self._complain(origin, f"the tag {event.tag} is not supported", "remove the tag; write plain values")

    def _make_origin(self, event: Any) -> Origin:
        return Origin(self.file, event.start_mark.line + 1, event.start_mark.column + 1)

    def _make_problem(self, origin: Origin, message: str, fix: str) -> Problem:
        path = ".".join(frame.key for frame in self._frames if frame.key)
        return Problem(self.file, origin.line, origin.column, path, message, fix)

    def _complain(self, origin: Origin, message: str, fix: str) -> None:
        self.problems.append(self._make_problem(origin, message, fix))


_WRITE_NAME, _WRITE_VALUE = "write a plain name before the ':'", "write the value itself, or render the template first"
_WRITE_SPEC = "begin with 'apiVersion: mlperf-reconciler/v1', 'kind: Submission' and 'spec:', or omit the file"

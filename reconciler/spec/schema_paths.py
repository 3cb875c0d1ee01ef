"""Places of a spec by dotted paths, as ``kubectl explain`` has them, found in its schema."""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.errors import ReconcilerError
from reconciler.spec.names import find_nearest, give_advice
from reconciler.spec.schema import build_submission_schema

Node = Mapping[str, Any]


class SchemaNode(Struct, frozen=True):
    """``fields``: name → its node, of a group; ``item``: of a group whose names are the user's own, what each holds.
    ``others``: further places of a field that was named without its path, where it means something else."""

    path: str
    node: Node
    fields: Mapping[str, Node]
    required: tuple[str, ...] = ()
    item: str = ""
    others: tuple[str, ...] = ()


def find_schema_node(path: str) -> SchemaNode:
    """The node at a path, or of a field by the end of its path. Raises ReconcilerError that names what there is where
    the path leaves the schema."""
    schema = build_submission_schema()
    definitions: Mapping[str, Node] = schema["$defs"]
    root, parts = _resolve(schema, definitions), [*filter(None, path.replace("/", ".").split("."))]
    found: dict[str, tuple[str, Node]] = {}
    if parts and parts[0] not in root["properties"]:
        for place, below in _list_fields(root, definitions):
            if place[-1] == parts[0]:
                with contextlib.suppress(ReconcilerError):
                    end, end_node = _walk(below, parts[1:], definitions, ".".join(place))
                    found.setdefault(_describe(end_node), (end, end_node))
        if not found:
            names = dict.fromkeys(place[-1] for place, _ in _list_fields(root, definitions))
            near = find_nearest(parts[0], names)
            fix = f"write {near}" if near else give_advice(parts[0], root["properties"])
            raise ReconcilerError(f"no place of a spec has {path}", fix=fix)
    places = list(found.values()) or [_walk(root, parts, definitions, "")]
    walked, node = places[0]
    group = _group(node, definitions)
    fields = {name: _resolve(found, definitions) for name, found in group.get("properties", {}).items()}
    item = ""
    if not fields and (inner := _own_names(group)) is not None:
        group = _group(_resolve(inner, definitions), definitions)
        fields = {name: _resolve(found, definitions) for name, found in group.get("properties", {}).items()}
        item = "NAME"
    others = tuple(place for place, _ in places[1:])
    return SchemaNode(walked, node, fields, tuple(group.get("required", ())), item, others)


def complete_path(beginning: str) -> list[str]:
    """Paths that begin so, one name longer; without a dot, also the names of fields anywhere."""
    before, dot, last = beginning.rpartition(".")
    names = dict.fromkeys(find_schema_node(before).fields)
    if not dot:
        schema = build_submission_schema()
        root = _resolve(schema, schema["$defs"])
        names |= dict.fromkeys(place[-1] for place, _ in _list_fields(root, schema["$defs"]))
    return [f"{before}{dot}{name}" for name in names if name.startswith(last)]


def _walk(node: Node, parts: Sequence[str], definitions: Mapping[str, Node], walked: str) -> tuple[str, Node]:
    """The path and node that these parts lead to. A name of the user's own may have a dot before a digit."""
    if not parts:
        return walked, node
    at = f"{walked}.{parts[0]}" if walked else parts[0]
    try:
        return _walk(_step(node, parts[0], definitions, walked), parts[1:], definitions, at)
    except ReconcilerError:
        if len(parts) == 1 or not parts[1][:1].isdigit():
            raise
    return _walk(node, [f"{parts[0]}.{parts[1]}", *parts[2:]], definitions, walked)


def _list_fields(node: Node, definitions: Mapping[str, Node]) -> Iterator[tuple[tuple[str, ...], Node]]:
    """(path, node) of every field, the shortest paths first, without the names of the user's own."""
    waiting: deque[tuple[tuple[str, ...], Node]] = deque([((), node)])
    seen: set[tuple[str, str]] = set()
    while waiting:
        place, below = waiting.popleft()
        group = _group(below, definitions)
        inner = _own_names(group)
        if inner is not None:
            waiting.append((place, _resolve(inner, definitions)))
        for name, field in group.get("properties", {}).items():
            found = _resolve(field, definitions)
            yield (*place, name), found
            if (name, _describe(found)) not in seen:
                seen.add((name, _describe(found)))
                waiting.append(((*place, name), found))


def _describe(node: Node) -> str:
    return json.dumps(node, sort_keys=True, default=str)


def _step(node: Node, part: str, definitions: Mapping[str, Node], walked: str) -> Node:
    group = _group(node, definitions)
    known: Mapping[str, Node] = group.get("properties", {})
    if part in known:
        return _resolve(known[part], definitions)
    inner = _own_names(group)
    if inner is not None and not (known and _has(inner, part, definitions)):
        below = _group(_resolve(inner, definitions), definitions)
        if part in below.get("properties", {}):
            return _resolve(below["properties"][part], definitions)
        deeper = _own_names(below)
        if deeper is not None and _has(deeper, part, definitions):
            return _step(_resolve(inner, definitions), part, definitions, walked)
        return _resolve(inner, definitions)
    where = walked or "the document"
    fix = give_advice(part, known) if known else f"`reconcile explain {walked}` shows it"
    raise ReconcilerError(f"{where} has no {part}", fix=fix)


def _has(node: Node, part: str, definitions: Mapping[str, Node]) -> bool:
    group = _group(_resolve(node, definitions), definitions)
    inner = _own_names(group)
    return part in group.get("properties", {}) or (inner is not None and _has(inner, part, definitions))


def _own_names(group: Node) -> Node | None:
    """Schema below names of the user's own; None where names are fixed."""
    inner = group.get("additionalProperties")
    if isinstance(inner, dict):
        return inner
    patterns = group.get("patternProperties")
    return next(iter(patterns.values())) if patterns else None


def _resolve(node: Node, definitions: Mapping[str, Node]) -> Node:
    """With what it refers to; its own description wins."""
    reference = node.get("$ref")
    if reference is None:
        return node
    target = definitions[str(reference).rpartition("/")[2]]
    return {**_resolve(target, definitions), **{name: value for name, value in node.items() if name != "$ref"}}


def _group(node: Node, definitions: Mapping[str, Node]) -> Node:
    """The mapping among the forms that a value may have."""
    for form in (node, *node.get("anyOf", ()), *node.get("oneOf", ())):
        found = _resolve(form, definitions)
        if "properties" in found or isinstance(found.get("additionalProperties"), dict) or "patternProperties" in found:
            return found
    return node

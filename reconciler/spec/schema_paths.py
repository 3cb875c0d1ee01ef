"""Places of a spec by dotted paths, as ``kubectl explain`` has them, found in its schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from reconciler.errors import ReconcilerError
from reconciler.spec.names import give_advice
from reconciler.spec.schema import build_submission_schema

Node = Mapping[str, Any]


class SchemaNode(Struct, frozen=True):
    """``fields``: name → its node, of a group; ``item``: of a group whose names are the user's own, what each holds."""

    path: str
    node: Node
    fields: Mapping[str, Node]
    required: tuple[str, ...] = ()
    item: str = ""


def find_schema_node(path: str) -> SchemaNode:
    """Raises ReconcilerError that names what there is where the path leaves the schema."""
    schema = build_submission_schema()
    definitions: Mapping[str, Node] = schema["$defs"]
    node, walked = _resolve(schema, definitions), ""
    for part in filter(None, path.replace("/", ".").split(".")):
        node = _step(node, part, definitions, walked)
        walked = f"{walked}.{part}" if walked else part
    group = _group(node, definitions)
    fields = {name: _resolve(found, definitions) for name, found in group.get("properties", {}).items()}
    item = ""
    if not fields and (inner := _own_names(group)) is not None:
        group = _group(_resolve(inner, definitions), definitions)
        fields = {name: _resolve(found, definitions) for name, found in group.get("properties", {}).items()}
        item = "NAME"
    return SchemaNode(walked, node, fields, tuple(group.get("required", ())), item)


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

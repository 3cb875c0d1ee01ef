"""A place of the spec's schema as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.spec.schema_paths import SchemaNode

WIDTH = 100


def render_schema_node(found: SchemaNode, width: int = WIDTH) -> str:
    lines = [f"PATH:  {found.path or '(the whole document)'}"]
    lines += [f"TYPE:  {_show_type(found.node)}"] if found.node.get("type") or _choices(found.node) else []
    if text := str(found.node.get("description", "")):
        lines += ["", *textwrap.wrap(" ".join(text.split()), width)]
    lines += list(_facts(found.node))
    if found.fields:
        lines += ["", f"FIELDS of each {found.item}, which you choose:" if found.item else "FIELDS:"]
        for name, node in found.fields.items():
            needed = " (required)" if name in found.required else ""
            lines.append(f"  {name}  <{_show_type(node)}>{needed}")
            said = " ".join(str(node.get("description", "")).split())
            lines += textwrap.wrap(said, width, initial_indent="      ", subsequent_indent="      ")
    if found.others:
        lines += ["", "OTHER PLACES with a field of this name:", *(f"  {place}" for place in found.others)]
    return "\n".join(lines)


def _facts(node: Mapping[str, Any]) -> Iterator[str]:
    if "default" in node:
        yield f"Default: {node['default']}"
    if choices := _choices(node):
        yield f"One of: {', '.join(map(str, choices))}"
    if examples := next((form["examples"] for form in _forms(node) if "examples" in form), ()):
        yield f"Such as: {', '.join(map(str, examples))}"


def _forms(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [node, *node.get("anyOf", ()), *node.get("oneOf", ())]


def _choices(node: Mapping[str, Any]) -> list[Any]:
    return [choice for form in _forms(node) for choice in form.get("enum", ())]


def _show_type(node: Mapping[str, Any]) -> str:
    """In words of a person: a group, a list, a text."""
    words = {
        "object": "group",
        "array": "list",
        "string": "text",
        "boolean": "true or false",
        "integer": "whole number",
    }
    found: list[str] = []
    for form in _forms(node):
        kinds = form.get("type", ())
        for kind in [kinds] if isinstance(kinds, str) else kinds:
            found.append(words.get(kind, kind))
        if "properties" in form or "additionalProperties" in form:
            found.append("group")
    if _choices(node):
        return "choice"
    return " or ".join(dict.fromkeys(word for word in found if word != "null")) or "group"

"""The JSON Schema of a spec, for editors; ``python -m reconciler.spec.schema`` writes submission.schema.json."""

from __future__ import annotations

import json
import sys
import textwrap
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from harness.catalog import BACKENDS, Option
from reconciler.errors import ReconcilerError
from reconciler.resource.kinds import SCENARIOS
from reconciler.resource.quantities import join_listing
from reconciler.rules.rounds import list_rounds, load_ruleset
from reconciler.spec.models import Document
from reconciler.spec.names import find_nearest, give_advice
from reconciler.spec.proposal import DESCRIPTION_FIELDS
from reconciler.spec.scalars import NAME
from reconciler.storage.packaged_files import SCHEMA

# Render a node of the spec's schema as text.

WIDTH = 100


def render_schema_node(found: SchemaNode, width: int = WIDTH) -> str:
    lines = [f"PATH:  {found.path or '(the whole document)'}"]
    lines.append(f"TYPE:  {_show_type(found.node)}")
    if text := str(found.node.get("description", "")):
        lines += ["", *textwrap.wrap(" ".join(text.split()), width)]
    if "default" in found.node:
        lines.append(f"Default: {found.node['default']}")
    if choices := _list_choices(found.node):
        lines.append(f"One of: {', '.join(map(str, choices))}")
    if examples := next((form["examples"] for form in _list_forms(found.node) if "examples" in form), ()):
        lines.append(f"Such as: {', '.join(map(str, examples))}")
    if found.fields:
        lines += ["", f"FIELDS of each {found.item}, which you choose:" if found.item else "FIELDS:"]
        for name, node in found.fields.items():
            needed = " (required)" if name in found.required else ""
            lines.append(f"  {name}  <{_show_type(node)}>{needed}")
            said = " ".join(str(node.get("description", "")).split())
            lines += textwrap.wrap(said, width, initial_indent="      ", subsequent_indent="      ")
    if found.also:
        lines += ["", f"It may also be written below {join_listing(found.also)}."]
    if found.others:
        lines += ["", "OTHER FIELDS with this name:", *(f"  {place}" for place in found.others)]
    return "\n".join(lines)


def render_schema_part(found: SchemaNode) -> dict[str, Any]:
    """Return the node for the JSON report: the facts of the field, and of each field below it."""
    fields = {name: {**_render_field(node), "required": name in found.required} for name, node in found.fields.items()}
    return {
        "path": found.path,
        **_render_field(found.node),
        "fields": fields,
        "also": list(found.also),
        "others": list(found.others),
    }


def _render_field(node: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": _show_type(node),
        "meaning": " ".join(str(node.get("description", "")).split()),
        "default": node.get("default"),
        "choices": _list_choices(node),
    }


def _list_forms(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [node, *node.get("anyOf", ()), *node.get("oneOf", ())]


def _list_choices(node: Mapping[str, Any]) -> list[Any]:
    return [choice for form in _list_forms(node) for choice in form.get("enum", ())]


def _show_type(node: Mapping[str, Any]) -> str:
    """Return the type in plain words: a group, a list, a text."""
    words = {"object": "group", "array": "list", "string": "text", "boolean": "true or false"}
    words["integer"] = "whole number"
    found: list[str] = []
    for form in _list_forms(node):
        kinds = form.get("type", ())
        for kind in [kinds] if isinstance(kinds, str) else kinds:
            found.append(words.get(kind, kind))
        if "properties" in form or "additionalProperties" in form:
            found.append("group")
    if _list_choices(node):
        return "choice"
    return " or ".join(dict.fromkeys(word for word in found if word != "null")) or "group"


# Find nodes of the schema by dotted paths, as in ``kubectl explain``.

Node = Mapping[str, Any]
_SECTION = 2  # names in the path of a section: spec.benchmarks


class SchemaNode(Struct, frozen=True):
    """``fields``: a group's nodes by name; ``item``: for a group whose names the user chooses, a placeholder for these.
    ``also``: other sections where the field has the same meaning; ``others``: places where a field with the requested
    name has another meaning."""

    path: str
    node: Node
    fields: Mapping[str, Node]
    required: tuple[str, ...] = ()
    item: str = ""
    also: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def find_schema_node(path: str) -> SchemaNode:
    """Find the node at a path, or a field by the end of its path. Raises ReconcilerError with the valid names if the
    path does not exist in the schema."""
    schema = build_submission_schema()
    definitions: Mapping[str, Node] = schema["$defs"]
    root, parts = _resolve(schema, definitions), [*filter(None, path.replace("/", ".").split("."))]
    found: dict[str, tuple[str, Node]] = {}
    wrong: ReconcilerError | None = None
    if parts and parts[0] not in root["properties"]:
        for place, below in _list_fields(root, definitions):
            if place[-1] == parts[0]:
                try:
                    end, end_node = _follow_path(below, parts[1:], definitions, ".".join(place))
                except ReconcilerError as error:
                    wrong = wrong or error
                else:
                    found.setdefault(_serialise(end_node), (end, end_node))
        if not found and wrong:
            raise wrong
        if not found:
            names = dict.fromkeys(place[-1] for place, _ in _list_fields(root, definitions))
            near = find_nearest(parts[0], names)
            fix = f"write {near}" if near else give_advice(parts[0], root["properties"])
            raise ReconcilerError(f"no such field in a spec: {path}", fix=fix)
    places = list(found.values()) or [_follow_path(root, parts, definitions, "")]
    walked, node = places[0]
    group = _find_group(node, definitions)
    item = ""
    if not group.get("properties") and (inner := _find_item(group)) is not None:
        group, item = _find_group(_resolve(inner, definitions), definitions), "NAME"
    fields = {name: _resolve(found, definitions) for name, found in group.get("properties", {}).items()}
    others = tuple(place for place, _ in places[1:])
    also = _list_sections(walked.split("."), root, definitions) if found else ()
    return SchemaNode(walked, node, fields, tuple(group.get("required", ())), item, also, others)


def _list_sections(path: Sequence[str], root: Node, definitions: Mapping[str, Node]) -> tuple[str, ...]:
    """List the other sections, such as spec.benchmarks, that have this field or a group around it."""
    listed = list(_list_fields(root, definitions))
    around = {place[-1]: _serialise(node) for place, node in listed if list(place) == list(path[: len(place)])}
    same = (place for place, node in listed if around.get(place[-1]) == _serialise(node) and len(place) > _SECTION)
    sections = dict.fromkeys(".".join(place[:_SECTION]) for place in same)
    return tuple(section for section in sections if section != ".".join(path[:_SECTION]))


def complete_path(beginning: str) -> list[str]:
    """Return the paths that begin with this text and are one name longer; for a text without a dot, also the names of
    fields anywhere."""
    before, dot, last = beginning.rpartition(".")
    names = dict.fromkeys(find_schema_node(before).fields)
    if not dot:
        schema = build_submission_schema()
        root = _resolve(schema, schema["$defs"])
        names |= dict.fromkeys(place[-1] for place, _ in _list_fields(root, schema["$defs"]))
    return [f"{before}{dot}{name}" for name in names if name.startswith(last)]


def _follow_path(node: Node, parts: Sequence[str], definitions: Mapping[str, Node], walked: str) -> tuple[str, Node]:
    """Return the path and node that these parts lead to. A user's own name may contain a dot before a digit."""
    if not parts:
        return walked, node
    at = f"{walked}.{parts[0]}" if walked else parts[0]
    try:
        return _follow_path(_find_below(node, parts[0], definitions, walked), parts[1:], definitions, at)
    except ReconcilerError:
        if len(parts) == 1 or not parts[1][:1].isdigit():
            raise
    return _follow_path(node, [f"{parts[0]}.{parts[1]}", *parts[2:]], definitions, walked)


def _list_fields(node: Node, definitions: Mapping[str, Node]) -> Iterator[tuple[tuple[str, ...], Node]]:
    """Yield (path, node) of every field, shortest paths first. Paths omit names that the user chooses."""
    waiting: deque[tuple[tuple[str, ...], Node]] = deque([((), node)])
    seen: set[tuple[str, str]] = set()
    while waiting:
        place, below = waiting.popleft()
        group = _find_group(below, definitions)
        inner = _find_item(group)
        if inner is not None:
            waiting.append((place, _resolve(inner, definitions)))
        for name, field in group.get("properties", {}).items():
            found = _resolve(field, definitions)
            yield (*place, name), found
            if (name, _serialise(found)) not in seen:
                seen.add((name, _serialise(found)))
                waiting.append(((*place, name), found))


def _serialise(node: Node) -> str:
    return json.dumps(node, sort_keys=True, default=str)


def _find_below(node: Node, part: str, definitions: Mapping[str, Node], walked: str) -> Node:
    group = _find_group(node, definitions)
    known: Mapping[str, Node] = group.get("properties", {})
    if part in known:
        return _resolve(known[part], definitions)
    inner = _find_item(group)
    if inner is not None and not (known and _has_field(inner, part, definitions)):
        below = _find_group(_resolve(inner, definitions), definitions)
        if part in below.get("properties", {}):
            return _resolve(below["properties"][part], definitions)
        deeper = _find_item(below)
        if deeper is not None and _has_field(deeper, part, definitions):
            return _find_below(_resolve(inner, definitions), part, definitions, walked)
        return _resolve(inner, definitions)
    where = walked or "the document"
    fix = give_advice(part, known) if known else f"`reconcile explain {walked}` shows it"
    raise ReconcilerError(f"{where} has no {part}", fix=fix)


def _has_field(node: Node, part: str, definitions: Mapping[str, Node]) -> bool:
    group = _find_group(_resolve(node, definitions), definitions)
    inner = _find_item(group)
    return part in group.get("properties", {}) or (inner is not None and _has_field(inner, part, definitions))


def _find_item(group: Node) -> Node | None:
    """Return the schema below names that the user chooses; None if the names are fixed."""
    inner = group.get("additionalProperties")
    if isinstance(inner, dict):
        return inner
    patterns = group.get("patternProperties")
    return next(iter(patterns.values())) if patterns else None


def _resolve(node: Node, definitions: Mapping[str, Node]) -> Node:
    """Resolve a node's reference; its own description takes precedence."""
    reference = node.get("$ref")
    if reference is None:
        return node
    target = definitions[str(reference).rpartition("/")[2]]
    return {**_resolve(target, definitions), **{name: value for name, value in node.items() if name != "$ref"}}


def _find_group(node: Node, definitions: Mapping[str, Node]) -> Node:
    """Return the mapping among the permitted forms of a value."""
    for form in (node, *node.get("anyOf", ()), *node.get("oneOf", ())):
        found = _resolve(form, definitions)
        if "properties" in found or isinstance(found.get("additionalProperties"), dict) or "patternProperties" in found:
            return found
    return node


_KINDS: dict[type, dict[str, Any]] = {int: {"type": "integer"}, str: {"type": "string"}, bool: {"type": "boolean"}}


def build_submission_schema() -> dict[str, Any]:
    """Build the schema as JSON: names, units, choices, backend options and descriptions of every field."""
    schema = Document.model_json_schema(by_alias=True)
    _visit_groups(schema, _tidy_group)
    definitions = schema["$defs"]
    for kind, part in (("Engine", "engine"), ("Run", "run")):
        definitions[kind]["properties"]["options"] |= _build_options(part)
    fields = {name: {"type": ["string", "number"], "description": text} for name, text in DESCRIPTION_FIELDS.items()}
    definitions["System"]["properties"]["description"]["properties"] = fields
    _offer_names(definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "MLPerf Inference submission spec",
        **schema,
    }


def _offer_names(definitions: dict[str, Any]) -> None:
    """Offer the known rounds and benchmarks in editors; a user's own benchmark may have any name."""
    rounds = list(list_rounds())
    definitions["Spec"]["properties"]["round"] |= {"enum": rounds}
    rulesets = [load_ruleset(name) for name in rounds]
    official = sorted({name for ruleset in rulesets for name in ruleset.benchmarks})
    for group, name, known in (("BenchmarkGroup", "as", official), ("CellGroup", "infer_from", list(SCENARIOS))):
        field = definitions[group]["properties"][name]
        own = {key: field.pop(key) for key in ("type", "pattern") if key in field}
        field |= {"anyOf": [{"enum": known}, own]}


def render_schema() -> str:
    return json.dumps(build_submission_schema(), indent=2, ensure_ascii=False) + "\n"


def _build_options(part: str) -> dict[str, Any]:
    """Return the options of all backends; those of the chosen backend are checked after layering."""
    options: dict[str, tuple[Option[Any], list[str]]] = {}
    for backend, facts in BACKENDS.items():
        for name, option in (facts.engine if part == "engine" else facts.run).items():
            if name not in ("streams", "threads"):  # these are settings of ``run`` itself
                options.setdefault(name, (option, []))[1].append(backend)
    properties = {}
    for name, (option, backends) in sorted(options.items()):
        kind = {"enum": list(option.choices)} if option.choices else _KINDS[type(option.default)]
        described = f"{', '.join(backends)}: {option.text}{option.unit and f' ({option.unit})'}"
        properties[name] = {**kind, "description": described, "default": option.default}
    return {"properties": properties, "additionalProperties": False}


def _visit_groups(node: Any, visit: Callable[[dict[str, Any]], None]) -> None:
    if isinstance(node, (dict, list)):
        for value in node.values() if isinstance(node, dict) else node:
            _visit_groups(value, visit)
    if isinstance(node, dict):
        visit(node)


def _tidy_group(node: dict[str, Any]) -> None:
    """Remove redundant parts (titles, empty defaults), and allow groups to be empty."""
    if isinstance(node.get("title"), str):
        del node["title"]
    if "default" in node and (node["default"] is None or isinstance(node["default"], dict)):
        del node["default"]
    if node.get("type") == "object":
        node["type"] = ["object", "null"]
        if "patternProperties" in node:
            node["additionalProperties"] = False
        elif "additionalProperties" in node and "properties" not in node:
            node.setdefault("propertyNames", {"pattern": f"^{NAME.pattern}$"})


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / SCHEMA
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(render_schema(), encoding="utf-8")

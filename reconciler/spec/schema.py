"""The JSON Schema of a spec, for editors; ``python -m reconciler.spec.schema`` writes submission.schema.json."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.catalog import BACKENDS, Option
from reconciler.resource.kinds import SCENARIOS
from reconciler.rules.rounds import list_rounds, load_ruleset
from reconciler.spec.descriptions import DESCRIPTION_FIELDS
from reconciler.spec.models import Document
from reconciler.spec.scalars import NAME
from reconciler.storage.packaged_files import SCHEMA

_KINDS: dict[type, dict[str, Any]] = {int: {"type": "integer"}, str: {"type": "string"}, bool: {"type": "boolean"}}
# Run options that are settings of ``run`` itself.
_SETTINGS_OF_RUN = ("streams", "threads")


def build_submission_schema() -> dict[str, Any]:
    """The schema as JSON: names, units, choices, backend options and descriptions of every field."""
    schema = Document.model_json_schema(by_alias=True)
    _walk(schema, _tidy)
    definitions = schema["$defs"]
    for kind, part in (("Engine", "engine"), ("Run", "run")):
        definitions[kind]["properties"]["options"] |= _options(part)
    fields = {name: {"type": ["string", "number"], "description": text} for name, text in DESCRIPTION_FIELDS.items()}
    definitions["System"]["properties"]["description"]["properties"] = fields
    _offer_names(definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "MLPerf Inference submission spec",
        **schema,
    }


def _offer_names(definitions: dict[str, Any]) -> None:
    """Editors offer the rounds and the benchmarks that are known; a benchmark of one's own may have any name."""
    rounds = list(list_rounds())
    definitions["Spec"]["properties"]["round"] |= {"enum": rounds}
    rulesets = [load_ruleset(name) for name in rounds]
    official = sorted({name for ruleset in rulesets for name in ruleset.benchmarks})
    entered = definitions["BenchmarkGroup"]["properties"]["as"]
    named = {key: entered.pop(key) for key in ("type", "pattern") if key in entered}
    entered |= {"anyOf": [{"enum": official}, named]}
    sources = definitions["CellGroup"]["properties"]["infer_from"]
    plain = {key: sources.pop(key) for key in ("type", "pattern") if key in sources}
    sources |= {"anyOf": [{"enum": list(SCENARIOS)}, plain]}


def render_schema() -> str:
    return json.dumps(build_submission_schema(), indent=2, ensure_ascii=False) + "\n"


def _options(part: str) -> dict[str, Any]:
    """The options of all backends; which of them a backend takes is checked once layers are applied."""
    options: dict[str, tuple[Option[Any], list[str]]] = {}
    for backend, facts in BACKENDS.items():
        for name, option in (facts.engine if part == "engine" else facts.run).items():
            if name not in _SETTINGS_OF_RUN:
                options.setdefault(name, (option, []))[1].append(backend)
    properties = {name: _option(option, backends) for name, (option, backends) in sorted(options.items())}
    return {"properties": properties, "additionalProperties": False}


def _option(option: Option[Any], backends: list[str]) -> dict[str, Any]:
    kind = {"enum": list(option.choices)} if option.choices else _KINDS[type(option.default)]
    described = f"{', '.join(backends)}: {option.text}{option.unit and f' ({option.unit})'}"
    return {**kind, "description": described} | {"default": option.default}


def _walk(node: Any, visit: Callable[[dict[str, Any]], None]) -> None:
    if isinstance(node, dict):
        for value in node.values():
            _walk(value, visit)
        visit(node)
    elif isinstance(node, list):
        for value in node:
            _walk(value, visit)


def _tidy(node: dict[str, Any]) -> None:
    """Leave out what says nothing (titles, empty defaults), and let a group be empty."""
    if isinstance(node.get("title"), str):
        del node["title"]
    if "default" in node and node["default"] in (None, {}):
        del node["default"]
    if isinstance(node.get("default"), dict):
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

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from harness.contract import BACKENDS
from reconciler.spec.schema import build_submission_schema, find_schema_node, render_schema
from reconciler.spec.starter import render_starter_spec
from reconciler.storage.packaged_files import SCHEMA
from tests.unit.spec.writing import VALID, replaced

ROOT = Path(__file__).parents[3]


@cache
def make_validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(build_submission_schema())


def errors(text: str) -> list[str]:
    document = YAML(typ="safe", pure=True).load(text)
    return [error.json_path for error in make_validator().iter_errors(document)]


def test_the_schema_in_the_repository_is_up_to_date() -> None:
    written = (ROOT / SCHEMA).read_text(encoding="utf-8")
    assert written == render_schema(), "run: python -m reconciler.spec.schema"


@pytest.mark.parametrize(
    "text",
    [*((ROOT / "specs" / name).read_text() for name in ("quickstart.yaml", "llm.yaml")), VALID, render_starter_spec()],
)
def test_valid_specs_fit(text: str) -> None:
    assert errors(text) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Offline:", "Ofline:"),
        ("    open:", "    opened:"),
        ("backend: onnxruntime", "backend: onxruntime"),
        ("batch_size: 1", "options: {graph_optimization: al}"),
        ("batch_size: 1", "options: {grap: all}"),
        ("min_duration: 0", "min_duration: 600"),
        ("target_qps: 54", "target_latency: 5 MB"),
        ("category: edge", "category: edgy"),
        ("    box: {c", "    my box: {c"),
        ("status: available", "stat: available"),
    ],
)
def test_mistakes_an_editor_can_show(old: str, new: str) -> None:
    assert errors(replaced(old, new))


def test_every_field_is_described() -> None:
    def undescribed(node: Any, path: str) -> list[str]:
        found = []
        for name, field in node.get("properties", {}).items():
            found += [] if "description" in field else [f"{path}.{name}"]
        for name, inner in node.get("$defs", {}).items():
            found += undescribed(inner, name)
        return found

    assert undescribed(build_submission_schema(), "") == []


def test_scenarios_backends_and_options_are_listed() -> None:
    definitions = build_submission_schema()["$defs"]
    assert list(definitions["Scenarios"]["properties"])[:4] == ["SingleStream", "MultiStream", "Server", "Offline"]
    assert definitions["Engine"]["properties"]["backend"]["enum"] == list(BACKENDS)
    assert "all" in definitions["Engine"]["properties"]["options"]["properties"]["graph_optimization"]["enum"]


def test_a_field_found_by_its_name_lists_the_other_sections_that_have_it() -> None:
    everywhere = {"spec.systems", "spec.benchmarks", "spec.divisions"}
    assert set(find_schema_node("target_qps").also) == everywhere
    assert set(find_schema_node("batch_size").also) == everywhere, "of its group"
    assert find_schema_node("cooling").also == find_schema_node("spec.defaults.target_qps").also == ()

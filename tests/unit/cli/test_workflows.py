"""The workflows of this project, and the one that ``init`` writes: GitHub takes them, and a shell their commands."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from reconciler.cli.main import main

ROOT = Path(__file__).resolve().parents[3]
OURS = sorted((ROOT / ".github" / "workflows").glob("*"))
_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
_VERSIONED = re.compile(r"[\w.-]+/[\w./-]+@(v\d[\w.]*|[0-9a-f]{40})")


@pytest.fixture(scope="module")
def written_by_init(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("init") / "lab"
    assert main(["init", str(folder)]) == 0
    (workflow,) = (folder / ".github" / "workflows").iterdir()
    return workflow


@pytest.fixture(params=[path.name for path in OURS] + ["written by init"])
def workflow(request: pytest.FixtureRequest, written_by_init: Path) -> Path:
    return {path.name: path for path in OURS}.get(request.param, written_by_init)


def test_the_project_has_workflows_where_it_is_a_checkout() -> None:
    assert OURS or not (ROOT / ".git").exists()


def test_a_workflow_is_valid_under_the_published_schema(workflow: Path) -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(workflow)]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_commands_of_a_workflow_are_valid_shell(workflow: Path) -> None:
    commands = [step["run"] for step in steps(workflow) if "run" in step]
    assert commands
    for command in commands:
        done = subprocess.run(
            ["bash", "-n"], input=_EXPRESSION.sub("expression", command), capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, ""), command


def test_a_workflow_names_the_version_of_every_action(workflow: Path) -> None:
    actions = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert actions
    assert [action for action in actions if not _VERSIONED.fullmatch(action)] == []


def test_a_workflow_reads_only_variables_of_its_own_matrix(workflow: Path) -> None:
    for job in read(workflow)["jobs"].values():
        matrix = job.get("strategy", {}).get("matrix", {})
        read_variables = {name for e in _EXPRESSION.findall(str(job)) for name in re.findall(r"matrix\.(\w+)", e)}
        assert read_variables == set(matrix)


def test_a_workflow_may_only_read_the_repository(workflow: Path) -> None:
    assert read(workflow)["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("script", [ROOT / ".ci" / "run"], ids=lambda path: path.name)
def test_a_script_of_the_continuous_integration_is_valid_shell(script: Path) -> None:
    done = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def read(workflow: Path) -> Any:
    return YAML(typ="safe").load(workflow.read_text(encoding="utf-8"))


def steps(workflow: Path) -> Iterator[dict[str, Any]]:
    for job in read(workflow)["jobs"].values():
        yield from job["steps"]

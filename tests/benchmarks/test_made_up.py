"""The made-up repository is honest: in sync without a child process, and sensitive to its spec like a real one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.benchmarks.made_up import change_target, make_repository

_PLAN = "import sys; from reconciler.cli.main import main; sys.exit(main(['plan', '--json']))"


def _plan(folder: Path) -> tuple[int, dict[str, Any]]:
    ended = subprocess.run([sys.executable, "-P", "-c", _PLAN], cwd=folder, capture_output=True, check=False)
    return ended.returncode, json.loads(ended.stdout)


def test_a_hundred_resources_are_in_sync_and_one_target_is_one_cell(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    assert len(make_repository(root, systems=5, benchmarks=1).desired.resources) == 103
    code, plan = _plan(root)
    assert (code, plan["in_sync"], plan["unchanged"]) == (0, True, 103)
    cell = change_target(root)
    code, plan = _plan(root)
    assert code == 2
    assert [step["address"] for step in plan["steps"]] == [f"Run:{cell}/performance", f"Result:{cell}"]
    assert plan["unchanged"] == 101

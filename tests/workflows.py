"""Steps of a workflow or an action, run as they are written there: its YAML is read, and bash runs each ``run``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.architecture.source import ROOT

# Where the suite's packages are. A path in a .pth file brings no .pth files of that folder, and so no checkout.
PACKAGES = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]


# Variables of the suite's user that a step must not see.
_OWN = ("GITHUB_", "GIT_", "PIP_", "PYTHON")


def read_steps(file: str, *names: str) -> list[dict[str, Any]]:
    """Read the steps at ``names`` of a document below ``.github``."""
    found = YAML(typ="safe").load((ROOT / ".github" / file).read_text(encoding="utf-8"))
    for name in names:
        found = found[name]
    return list(found["steps"])


def make_python(folder: Path) -> Path:
    """Make a folder for the PATH with the suite's interpreter under the names that steps use."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("python", "python3"):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (folder / name).chmod(0o755)
    return folder


def make_environment(venv: Path) -> None:
    """Make an environment for a step to put pip into, with the suite's packages, but neither its commands nor the
    checkout."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (folder,) = venv.glob("lib/python3*/site-packages")
    (folder / "suite.pth").write_text("".join(f"{path}\n" for path in PACKAGES))


def run_step(step: Mapping[str, Any], at: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a step as GitHub does. ``environment``: the values of ``env``, with all expressions filled in."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=at,
        env={**inherited, "CI": "true", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def select_steps(steps: Iterable[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    """Select the steps of these names, in this order. Raises KeyError for a missing one."""
    known = {step.get("name", ""): step for step in steps}
    return [known[name] for name in names]

"""The contracts of pyproject.toml hold, and each of them catches what it is there for."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.architecture.source import ROOT

_LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"
# One line for each contract, in a module that it is about.
_OFFENCES = {
    "Imports point down": ("reconciler/plan/builder.py", "from reconciler.cli import main"),
    "Harness knows nothing of reconciler": ("harness/run/qsl.py", "from reconciler import errors"),
    "Of harness only the contract and the catalogs may be imported": (
        "reconciler/spec/names.py",
        "import harness.run.sut",
    ),
    "Pure code touches neither disk nor clock nor chance": ("reconciler/diff/change.py", "import time"),
    "A library has one door in reconciler": ("reconciler/desired/cells.py", "import pydantic.fields"),
    "A heavy library has one door in harness, and none in reconciler": ("harness/run/sut.py", "import mlperf_loadgen"),
}


def test_every_contract_is_kept() -> None:
    found = lint(ROOT)
    assert found.returncode == 0, found.stdout


def test_every_contract_catches_an_import_that_breaks_it(tmp_path: Path) -> None:
    copy(tmp_path)
    for file, line in _OFFENCES.values():
        text = (tmp_path / file).read_text()
        (tmp_path / file).write_text(f"{text}\n\ndef _offend():\n    {line}\n")
    found = lint(tmp_path)
    assert found.returncode == 1, found.stdout
    broken = {line.partition(" BROKEN")[0] for line in found.stdout.splitlines() if " BROKEN" in line}
    assert broken == _OFFENCES.keys()


def test_a_place_without_a_layer_is_caught(tmp_path: Path) -> None:
    copy(tmp_path)
    (tmp_path / "reconciler" / "odd.py").write_text("")
    found = lint(tmp_path)
    assert found.returncode == 1
    assert "reconciler.odd" in found.stdout


def copy(folder: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", folder)
    for package in ("reconciler", "harness"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """import-linter over the packages of a folder, without reading or writing its cache."""
    command = [sys.executable, "-c", _LINT, "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

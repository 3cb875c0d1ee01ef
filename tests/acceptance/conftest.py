"""The quickstart in a git repository of its own, run once and copied for each test."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.main import main
from tests.passes.repository import Repository
from tests.shared import make_once, need

TOP = Path(__file__).parent.parent.parent
SPEC = "specs/quickstart.yaml"


@dataclass(frozen=True, slots=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def report(self) -> Any:
        return json.loads(self.out)


def console(root: Path, *words: str) -> Said:
    """The command line in a folder, in this process: what it prints is what matters."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with contextlib.chdir(root), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    said = Said(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))
    assert "this is a bug in reconcile" not in said.err, said.err
    return said


def console_process(root: Path, *words: str) -> Said:
    """The same as a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(TOP)}
    command = [sys.executable, "-m", "reconciler.cli.main", *words]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return Said(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def checkout() -> Path:
    """Of the official repository."""
    need("yaml")
    named = os.environ.get("INFERENCE_CHECKOUT")
    if not named:
        pytest.skip("INFERENCE_CHECKOUT names no checkout of mlcommons/inference")
    return Path(named)


@dataclass(frozen=True, slots=True)
class Quickstart:
    """A repository after the first command, and what that command said."""

    repository: Repository
    first: Said


@pytest.fixture(scope="session")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Quickstart:
    """Not to be changed."""
    need("mlperf_loadgen", "onnxruntime", "onnx", "sklearn")
    return make_once(tmp_path_factory, "quickstart", _start)


def _start(folder: Path) -> Quickstart:
    """In this process; the tutorial's commands are processes, and their children new ones."""
    repository = Repository(folder / "repository")
    repository.write(SPEC, (TOP / SPEC).read_text(encoding="utf-8"))
    repository.write(".gitignore", ".reconcile/\n")
    repository.commit()
    return Quickstart(repository, console(repository.root, SPEC, "--json"))


@pytest.fixture
def repository(quickstart: Quickstart, tmp_path: Path) -> Repository:
    """A copy, with its tree rendered at its own place."""
    copied = quickstart.repository.copy(tmp_path / "repository")
    assert copied.reconcile().after.plan.in_sync
    return copied

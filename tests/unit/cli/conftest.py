"""One small repository with one recorded cell, made once by a real pass and copied for each test that needs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.cli.main import main
from reconciler.record.codec import decode
from reconciler.record.store import write_record
from reconciler.resource.records import Record
from reconciler.storage.files import RepositoryPaths, hash_bytes
from tests.acceptance.conftest import console as console_here
from tests.shared import copy_folder, make_once

SPEC = """\
apiVersion: mlperf-reconciler/v1
kind: Submission
metadata:
  name: one
spec:
  round: v6.1
  submitter: Tester
  rehearsal: true
  systems:
    box:
      category: edge
      status: available
      hardware: {count: 0}
  benchmarks:
    digits:
      as: resnet
      code: digits
      model: {settings: {epochs: 1}}
      engine: {backend: "null", batch_size: 8}
  divisions:
    open:
      box:
        digits:
          Offline: {target_qps: 1000, min_duration: 0, min_query_count: 512}
"""
CELL = "open/box/digits/Offline"


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def commit(root: Path, message: str = "Change it") -> str:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", message)
    return git(root, "rev-parse", "HEAD")


def console(*arguments: str, at: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line as a process of its own."""
    command = [sys.executable, "-P", "-m", "reconciler.cli.main", *arguments]
    return subprocess.run(
        command, cwd=at, capture_output=True, text=True, env={**os.environ, **environment}, timeout=120
    )


@pytest.fixture(scope="session")
def recorded_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    return make_once(tmp_path_factory, "recorded", _record)


def _record(folder: Path) -> Path:
    root = folder / "repository"
    (root / "specs").mkdir(parents=True)
    (root / "specs/one.yaml").write_text(SPEC)
    (root / ".gitignore").write_text(".reconcile/\n")
    git(root, "init", "--quiet", "--initial-branch=main")
    commit(root, "Declare one cell")
    return measure(root)


def measure(root: Path) -> Path:
    ended = console_here(root, "--commit")
    assert ended.code == 0, ended.out + ended.err
    return root


def enter_copy(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = copy_folder(source, tmp_path / "repository")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def recorded(recorded_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, in sync and with its records committed."""
    return enter_copy(recorded_once, tmp_path, monkeypatch)


@pytest.fixture
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a spec, and nothing done yet."""
    root = tmp_path / "declared"
    (root / "specs").mkdir(parents=True)
    (root / "specs/one.yaml").write_text(SPEC)
    monkeypatch.chdir(root)
    return root


class Reconcile:
    """The command line in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """Return exit code, standard output and standard error."""
        self._capsys.readouterr()
        code = main(words)
        captured = self._capsys.readouterr()
        return code, captured.out, captured.err

    def succeed(self, *words: str) -> str:
        """Return standard output of a command that ends with 0."""
        code, out, err = self(*words)
        assert code == 0, out + err
        return out

    def report(self, *words: str, ends: int | None = None) -> Any:
        """Return what a command prints as JSON; ``ends``: with this exit code."""
        code, out, err = self(*words, "--json")
        assert ends in (None, code), err
        return json.loads(out)

    def refuse(self, *words: str) -> str:
        """Return standard error of a command that ends with 1."""
        code, out, err = self(*words)
        assert code == 1, out + err
        return err


@pytest.fixture
def reconcile(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Reconcile:
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Reconcile(capsys)


def edit(root: Path, before: str, after: str, message: str = "", spec: str = "one") -> None:
    """Replace a text of the spec, and commit that where a message is given."""
    path = root / f"specs/{spec}.yaml"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    if message:
        commit(root, message)


def find_record(root: Path, address: str = f"Run:{CELL}/performance") -> tuple[Path, Record]:
    read = ((path, decode(path.read_bytes(), path.name)) for path in (root / "state/records").rglob("*.json"))
    return next((path, record) for path, record in read if str(record.address) == address)


def restate(root: Path, **values: object) -> None:
    """Have the record of the performance run state other values, under the name that these give it; in a commit."""
    path, record = find_record(root)
    path.unlink()
    write_record(RepositoryPaths(root), replace(record, values={**record.values, **values}))
    commit(root)


def read_day(path: Path) -> date:
    """The day in UTC on which a decision was made: midnight may pass during a test."""
    return datetime.fromisoformat(json.loads(path.read_text())["made"]).astimezone(UTC).date()


def expire(path: Path) -> None:
    """A decision as it would be had it been made long ago, for until the day on which it was made."""
    document = json.loads(path.read_text())
    document["until"] = str(read_day(path))
    data = json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"
    path.unlink()
    path.with_name(f"{path.name.rpartition('-')[0]}-{hash_bytes(data)[:20]}.json").write_bytes(data)

"""Slices that are made and taken away while the disk of the repository and of the machine's journal refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.faults import FAULTS, NEVER, Disk, build, judge
from tests.mig.conftest import HARDWARE, CutMachine
from tests.passes.repository import SPEC, Repository, make_repository

CREATE, DESTROY = ("mig", "create", "box", "--run"), ("mig", "destroy", "--run")


def console(repository: Repository, words: tuple[str, ...], environment: dict[str, str]) -> tuple[int, str]:
    command = [sys.executable, "-P", "-m", "reconciler.cli.main", *words]
    ended = subprocess.run(
        command, cwd=repository.root, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("words", [CREATE, DESTROY], ids=["create", "destroy"])
@pytest.mark.parametrize("name", ["full", "read-only", "failing", "one stale file"])
def test_a_refusal_is_reported_and_the_next_run_finishes(
    machine: CutMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: tuple[str, ...]
) -> None:
    disk_folder = tmp_path / "disk"
    monkeypatch.setenv("RECONCILE_LOCKS", str(disk_folder / "locks"))
    repository = make_repository(disk_folder / "repository")
    text = (repository.root / SPEC).read_text(encoding="utf-8")
    repository.write(SPEC, text.replace("status: available", f"status: available\n      {HARDWARE}"))
    (tmp_path / "refusing").mkdir()
    environment = build(tmp_path / "refusing")
    disk, fault = Disk(Path(environment["REFUSE_CONTROL"])), FAULTS[name]

    def prepare() -> None:
        assert console(repository, DESTROY if words == CREATE else CREATE, {})[0] == 0
        assert len(machine.slices()) == (0 if words == CREATE else 2)

    prepare()
    disk.refuse(disk_folder, fault, NEVER)
    assert console(repository, words, environment)[0] == 0
    calls, _ = disk.recover()
    for share in (0.4, 0.8):
        prepare()
        disk.refuse(disk_folder, fault, 1 + int(share * calls))
        status, said = console(repository, words, environment)
        _, met = disk.recover()
        assert not met or judge(status, fault, said) == []
        assert console(repository, words, {})[0] == 0
        assert len(machine.slices()) == (2 if words == CREATE else 0)
        assert not list(disk_folder.rglob("*.partial"))

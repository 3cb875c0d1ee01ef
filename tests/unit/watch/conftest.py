"""One small repository in sync, made once by a real pass and copied for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.passes.repository import Repository, make_repository
from tests.shared import make_once


@pytest.fixture(scope="session")
def recorded_once(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Not to be changed."""
    return make_once(tmp_path_factory, "watched", _record)


def _declare(folder: Path) -> Repository:
    repository = make_repository(folder / "repository")
    repository.write(".gitignore", ".reconcile/\n__pycache__/\n")
    repository.git("init", "--quiet", "--initial-branch=main")
    repository.commit()
    return repository


def _record(folder: Path) -> Repository:
    repository = _declare(folder)
    report = repository.reconcile(commit=True)
    assert report.after.plan.in_sync
    return repository


@pytest.fixture
def recorded(recorded_once: Repository, tmp_path: Path) -> Repository:
    repository = recorded_once.copy(tmp_path / "repository")
    repository.reconcile()  # the tree is known by its place
    return repository


@pytest.fixture
def declared(tmp_path: Path) -> Repository:
    """Nothing done yet."""
    return _declare(tmp_path)

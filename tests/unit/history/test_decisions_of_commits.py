"""Decisions as a commit has them, whatever the work tree has since."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from reconciler.errors import RepositoryError
from reconciler.history.snapshot import read_decisions
from reconciler.record.decisions import write
from reconciler.resource.decisions import Freeze
from reconciler.resource.kinds import Cell
from reconciler.storage.files import RepositoryPaths
from tests.unit.cli.conftest import git

TODAY = date(2026, 3, 1)


def freeze(benchmark: str) -> Freeze:
    cell = Cell("open", "box", benchmark, "Offline")
    return Freeze(cell, "why", "Ann <ann@lab>", "2026-02-01T00:00:00Z", date(2026, 4, 1), "")


def test_decisions_are_those_of_the_commit_and_none_of_them_is_lost_silently(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    kept, lost = (write(RepositoryPaths(tmp_path), freeze(name)) for name in ("net", "other"))
    folder = (tmp_path / kept).parent
    (folder / "notes.txt").write_text("no decision")
    (folder / "broken.json").write_text("{")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "Freeze")
    (tmp_path / kept).unlink()
    write(RepositoryPaths(tmp_path), freeze("later"))
    found = read_decisions(tmp_path, "HEAD", TODAY)
    assert found.freezes == {kept: freeze("net"), lost: freeze("other")}
    assert ([*found.damaged], found.today) == ([f"{folder.relative_to(tmp_path)}/broken.json"], TODAY)
    blob = git(tmp_path, "rev-parse", f"HEAD:{lost}")
    (tmp_path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(RepositoryError, match=f"^commit HEAD is incomplete here: git has lost {lost}"):
        read_decisions(tmp_path, "HEAD", TODAY)


def test_decisions_hold_on_the_day_of_the_commit_where_no_other_is_asked_for(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    write(RepositoryPaths(tmp_path), freeze("net"))
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "Freeze")
    today = date.fromisoformat(git(tmp_path, "show", "--no-patch", "--format=%cs"))
    assert abs((read_decisions(tmp_path, "HEAD", None).today - today).days) <= 1  # the day in UTC
    assert read_decisions(tmp_path, "HEAD", date(2026, 3, 31)).frozen == (freeze("net"),)
    assert read_decisions(tmp_path, "HEAD", date(2026, 4, 1)).frozen == ()

"""What killed writes left in folders of the user's."""

from __future__ import annotations

import os
from pathlib import Path

from reconciler.files import RepositoryPaths, try_flock
from reconciler.leftovers import sweep_beside, sweep_repository


def test_only_what_writes_of_this_file_left_goes(tmp_path: Path) -> None:
    ours = [tmp_path / f".sent[1].tar.gz{more}.x1y2.partial" for more in ("", ".MANIFEST.json", ".sha256")]
    others = [
        tmp_path / name for name in (".other.partial", ".sent[1].tar.gz.x1y2", "sent[1].tar.gz", ".sent1.partial")
    ]
    for path in [*ours, *others]:
        path.write_text("half")
    sweep_beside(tmp_path / "sent[1].tar.gz")
    assert sorted(tmp_path.iterdir()) == sorted(others)


def test_what_is_being_written_stays(tmp_path: Path) -> None:
    path = tmp_path / ".packed.tar.gz.x1y2.partial"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    assert try_flock(descriptor)
    sweep_beside(tmp_path / "packed.tar.gz")
    assert path.exists()
    os.close(descriptor)
    sweep_beside(tmp_path / "packed.tar.gz")
    assert not path.exists()


def test_what_killed_commands_left_anywhere_in_a_repository_goes(tmp_path: Path) -> None:
    left = ("..gitignore.k2.partial", "specs/.one.yaml.k2.partial", "state/records/Run/.a.json.k2.partial")
    work = (
        "..gitignore.k2.partial",
        "index/.tree.json.k2.partial",
        "locks/.x.k2.partial",
        "scratch-k2/log",
        ".tree.gone/x",
    )
    kept = (".gitignore", "specs/one.yaml", "src/.mine.partial", ".reconcile/tree/.x.k2.partial", ".config.partial.txt")
    for name in (*left, *(f".reconcile/{name}" for name in work), *kept):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("half")
    sweep_repository(RepositoryPaths(tmp_path))
    assert {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()} == set(kept)

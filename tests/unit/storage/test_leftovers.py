"""What killed writes left in folders of the user's."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from reconciler.storage.files import RepositoryPaths, try_flock
from reconciler.storage.leftovers import open_temporary, sweep_repository, sweep_siblings


def test_only_what_writes_of_this_file_left_goes(tmp_path: Path) -> None:
    ours = [tmp_path / f".sent[1].tar.gz{more}.x1y2.partial" for more in ("", ".MANIFEST.json", ".sha256")]
    others = [
        tmp_path / name for name in (".other.partial", ".sent[1].tar.gz.x1y2", "sent[1].tar.gz", ".sent1.partial")
    ]
    for path in [*ours, *others]:
        path.write_text("half")
    sweep_siblings(tmp_path / "sent[1].tar.gz")
    assert sorted(tmp_path.iterdir()) == sorted(others)


def test_what_is_being_written_stays(tmp_path: Path) -> None:
    path = tmp_path / ".packed.tar.gz.x1y2.partial"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    assert try_flock(descriptor)
    sweep_siblings(tmp_path / "packed.tar.gz")
    assert path.exists()
    os.close(descriptor)
    sweep_siblings(tmp_path / "packed.tar.gz")
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


def test_temporary_folder_goes_at_its_end_and_what_a_killed_process_left_with_the_next(tmp_path: Path) -> None:
    killed, other = tmp_path / "mlperf-reconciler.pack-killed", tmp_path / "mlperf-reconciler-locks"
    for folder in (killed, other):
        folder.mkdir()
        (folder / "archive").write_text("secret\n")
    with open_temporary("pack", tmp_path) as outer:
        (outer / "archive").write_text("in use\n")
        with open_temporary("pack", tmp_path) as inner:
            assert {*tmp_path.iterdir()} == {outer, inner, other}
            assert (outer / "archive").read_text() == "in use\n"
    assert [*tmp_path.iterdir()] == [other]


def test_temporary_folder_that_is_being_made_stays_for_a_minute(tmp_path: Path) -> None:
    made = tmp_path / "mlperf-reconciler.pack-made"
    made.mkdir()
    for age, stays in ((5, True), (300, False)):
        os.utime(made, (time.time() - age,) * 2)
        with open_temporary("pack", tmp_path):
            assert made.exists() == stays


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give files away")
def test_temporary_folder_of_another_user_is_left_alone(tmp_path: Path) -> None:
    theirs, link = tmp_path / "mlperf-reconciler.pack-theirs", tmp_path / "mlperf-reconciler.pack-link"
    kept = tmp_path / "kept"
    for folder in (theirs, kept):
        folder.mkdir()
        (folder / "archive").write_text("not ours\n")
    os.chown(theirs, 12345, 12345)
    link.symlink_to(kept)
    with open_temporary("pack", tmp_path):
        pass
    assert {*tmp_path.iterdir()} == {theirs, link, kept}
    assert (kept / "archive").exists()


@pytest.mark.parametrize("name", ["mlperf-reconciler.rescore-killed", "rerun-old", "rescore-old"])
def test_pass_removes_what_a_killed_audit_left(tmp_path: Path, name: str) -> None:
    """Also under the names of earlier versions."""
    paths = RepositoryPaths(tmp_path)
    left = paths.work / name
    (left / "tree").mkdir(parents=True)
    with open_temporary("rerun", paths.work) as retained:
        sweep_repository(paths)
        assert [*paths.work.iterdir()] == [retained]

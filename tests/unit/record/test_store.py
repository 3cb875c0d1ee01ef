"""The object store and the logs in git."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.record.store import find_artifact, find_object, find_readable, keep, repair_artifact
from reconciler.storage.files import RepositoryPaths, hash_file


@pytest.fixture
def paths(tmp_path: Path) -> RepositoryPaths:
    return RepositoryPaths(tmp_path / "repository")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(b"the bytes")
    return path


def test_keep_leaves_the_source_where_it_is(paths: RepositoryPaths, source: Path) -> None:
    artifact = keep(paths, source, "name")
    stored = find_object(paths, artifact.sha256)
    assert (artifact.name, artifact.size, artifact.place) == ("name", 9, "objects")
    assert source.read_bytes() == stored.read_bytes() == b"the bytes"
    assert stored.stat().st_mode & 0o222 == 0
    assert hash_file(stored) == artifact.sha256


def test_log_lies_in_both_places_as_two_files(paths: RepositoryPaths, source: Path) -> None:
    artifact = keep(paths, source, "log", in_git=True)
    log, stored = find_artifact(paths, "logs", artifact.sha256), find_object(paths, artifact.sha256)
    assert artifact.place == "logs"
    assert log.read_bytes() == stored.read_bytes()
    assert log.stat().st_ino != stored.stat().st_ino


@pytest.mark.parametrize("in_git", [False, True])
def test_kept_again_it_is_replaced(paths: RepositoryPaths, source: Path, tmp_path: Path, in_git: bool) -> None:
    artifact = keep(paths, source, "name", in_git=in_git)
    copied = tmp_path / "again"
    copied.write_bytes(source.read_bytes())
    for place in ("objects", "logs") if in_git else ("objects",):
        path = find_artifact(paths, place, artifact.sha256)
        path.chmod(0o644)
        path.write_bytes(b"THE BYTES")
    assert keep(paths, copied, "name", in_git=in_git) == artifact
    for place in ("objects", "logs") if in_git else ("objects",):
        assert find_artifact(paths, place, artifact.sha256).read_bytes() == b"the bytes"


@pytest.mark.parametrize("place", ["objects", "logs"])
def test_folder_that_is_full_makes_room_repeatedly(paths: RepositoryPaths, source: Path, place: str) -> None:
    for _ in range(2):
        taken = find_artifact(paths, place, hash_file(source))
        taken.unlink(missing_ok=True)
        (taken / "inner").mkdir(parents=True)
        keep(paths, source, "log", in_git=True)
        assert taken.read_bytes() == b"the bytes"
    assert [[inner.name for inner in kept.iterdir()] for kept in paths.quarantine.iterdir()] == [["inner"]]


@pytest.mark.parametrize(("lost", "other"), [("logs", "objects"), ("objects", "logs")])
def test_lost_copy_comes_back_from_the_other(paths: RepositoryPaths, source: Path, lost: str, other: str) -> None:
    artifact = keep(paths, source, "log", in_git=True)
    find_artifact(paths, lost, artifact.sha256).unlink()
    assert repair_artifact(paths, lost, artifact.sha256, lambda _: None, lambda _: [])
    assert find_artifact(paths, lost, artifact.sha256).read_bytes() == b"the bytes"
    find_artifact(paths, lost, artifact.sha256).unlink()
    bad = find_artifact(paths, other, artifact.sha256)
    bad.chmod(0o644)
    bad.write_bytes(b"THE BYTES")
    assert repair_artifact(paths, lost, artifact.sha256, lambda _: None, lambda _: []) is (lost == "objects")
    assert not find_artifact(paths, lost, artifact.sha256).exists()


@pytest.mark.parametrize("where", ["git", "tree", "nowhere"])
def test_log_comes_back_from_its_bytes(paths: RepositoryPaths, source: Path, tmp_path: Path, where: str) -> None:
    artifact = keep(paths, source, "log", in_git=True)
    find_artifact(paths, "logs", artifact.sha256).unlink()
    find_object(paths, artifact.sha256).unlink()
    edited = tmp_path / "edited"
    edited.write_bytes(b"edited")
    copies = [edited, tmp_path / "missing", *([source] if where == "tree" else [])]
    committed = b"the bytes" if where == "git" else b"other bytes"
    found = repair_artifact(paths, "logs", artifact.sha256, lambda _: committed, lambda _: copies)
    assert found == (where != "nowhere")
    assert find_artifact(paths, "logs", artifact.sha256).exists() == found
    assert repair_artifact(paths, "objects", artifact.sha256, lambda _: None, lambda _: [])


def test_a_log_is_read_where_it_is_first_in_git_and_then_in_the_store(paths: RepositoryPaths, source: Path) -> None:
    artifact = keep(paths, source, "log", in_git=True)
    log, stored = find_artifact(paths, "logs", artifact.sha256), find_object(paths, artifact.sha256)
    assert find_readable(paths, artifact) == log
    log.unlink()
    assert find_readable(paths, artifact) == stored
    assert find_readable(paths, artifact._replace(place="objects")) == stored

"""The gate for files that somebody else wrote."""

from __future__ import annotations

import os
import subprocess
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.storage.files import copy, hash_file
from reconciler.storage.untrusted_files import DEEPEST, SpecialFileError, list_special_entries, read_regular, walk_files


@pytest.fixture(autouse=True)
def swept(tmp_path: Path) -> Iterator[None]:
    """pytest itself cannot remove what ``nest`` makes."""
    yield
    subprocess.run(["rm", "-rf", "--", str(tmp_path)], check=True)


def nest(folder: Path, depth: int) -> None:
    here = Path.cwd()
    try:
        os.chdir(folder)
        for _ in range(depth):
            os.mkdir("d")  # noqa: PTH102 - a path of this length has no name
            os.chdir("d")
    finally:
        os.chdir(here)


def make_hole(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(1 << 40)


TRAPS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "hole": make_hole,
}


@pytest.mark.parametrize("trap", TRAPS)
def test_what_is_no_file_of_a_sensible_size_is_not_read(tmp_path: Path, trap: str) -> None:
    path = tmp_path / "record.json"
    TRAPS[trap](path)
    tracemalloc.start()
    try:
        with pytest.raises(SpecialFileError, match=r"regular|bytes"):
            read_regular(path, 1000)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    (found,) = list_special_entries(tmp_path)
    assert found[0] == path


def test_a_file_whose_size_is_not_reported_is_read_to_its_end() -> None:
    path = Path("/proc/self/status")
    assert path.stat().st_size == 0
    assert read_regular(path).endswith(b"\n")
    with pytest.raises(SpecialFileError, match="bytes"):
        read_regular(path, 10)


@pytest.mark.parametrize("trap", ["pipe", "device"])
def test_digests_and_copies_wait_for_no_one(tmp_path: Path, trap: str) -> None:
    TRAPS[trap](tmp_path / "log")
    with pytest.raises(SpecialFileError):
        hash_file(tmp_path / "log")
    with pytest.raises(SpecialFileError):
        copy(tmp_path / "log", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_links_within_a_tree_are_fine_and_others_are_not(tmp_path: Path) -> None:
    tree, private = tmp_path / "tree", tmp_path / "key"
    (tree / "code").mkdir(parents=True)
    (tree / "a.txt").write_text("a")
    private.write_text("secret")
    (tree / "code/b.txt").symlink_to("../a.txt")
    assert list(list_special_entries(tree)) == []
    (tree / "code/c.txt").symlink_to(private)
    (tree / "code/d").symlink_to(tmp_path)
    assert sorted(path.name for path, _ in list_special_entries(tree)) == ["c.txt", "d"]
    assert [path.name for path, _ in list_special_entries(tree / "code")] == ["b.txt", "c.txt", "d"]


def test_walk_is_sorted_and_follows_no_link(tmp_path: Path) -> None:
    for name in ("b/2", "a/1", "b/a/3", "c"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (tmp_path / "b/loop").symlink_to("..")
    names = [path.relative_to(tmp_path).as_posix() for path in walk_files(tmp_path)]
    assert names == ["c", "a/1", "b/2", "b/loop", "b/a/3"]
    assert "b/a/3" not in [path.relative_to(tmp_path).as_posix() for path in walk_files(tmp_path, skipped=["a"])]


def test_folders_within_folders_end(tmp_path: Path) -> None:
    nest(tmp_path, 1200)
    with pytest.raises(SpecialFileError, match=f"nested more than {DEEPEST} deep"):
        list(walk_files(tmp_path))
    ((_, what),) = list_special_entries(tmp_path)
    assert "nested more than" in what

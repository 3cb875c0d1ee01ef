"""Digests of sources: whole folders by what is in each of their files, and no file read twice for nothing."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.errors import StorageError
from reconciler.observed import digest_cache
from reconciler.observed.digest_cache import DigestCache
from reconciler.observed.pins import hash_code
from reconciler.storage import untrusted_files
from reconciler.storage.files import RepositoryPaths, hash_file
from reconciler.storage.untrusted_files import SpecialFileError
from tests.shared import hash_tree


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Two shards of one size, an older and a newer one, and a small document."""
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    for number, name in enumerate(("model-1-of-2.safetensors", "model-2-of-2.safetensors", "config.json")):
        (folder / name).write_bytes(bytes([number]) * 100)
        os.utime(folder / name, (1000 + number, 1000 + number))
    return folder


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were read, in any order. Shards count as large ones."""
    read: list[str] = []
    own = digest_cache.hash_file

    def note(path: Path) -> str:
        read.append(path.name)
        return own(path)

    monkeypatch.setattr(digest_cache, "hash_file", note)
    monkeypatch.setattr(digest_cache, "_LARGE", 100)
    return read


def make_cache(root: Path, *, deep: bool = False) -> DigestCache:
    return DigestCache(RepositoryPaths(root), deep=deep)


def test_digest_is_of_all_names_and_bytes(checkpoint: Path, tmp_path: Path) -> None:
    assert make_cache(tmp_path).hash_source(checkpoint) == hash_tree(checkpoint)


def test_shard_of_the_same_size_that_is_older_than_another_is_noticed(checkpoint: Path, tmp_path: Path) -> None:
    cache = make_cache(tmp_path)
    before = cache.hash_source(checkpoint)
    shard = checkpoint / "model-1-of-2.safetensors"
    shard.write_bytes(b"x" * 100)
    os.utime(shard, (999, 999))
    assert cache.hash_source(checkpoint) != before
    names = sorted(path.name for path in checkpoint.iterdir())
    shard.rename(checkpoint / "aside")
    (checkpoint / "model-2-of-2.safetensors").rename(shard)
    (checkpoint / "aside").rename(checkpoint / "model-2-of-2.safetensors")
    assert sorted(path.name for path in checkpoint.iterdir()) == names
    assert len({before, cache.hash_source(checkpoint), hash_tree(checkpoint)}) == 2, "shards that changed places"


def test_only_the_shard_that_changed_is_read_again(checkpoint: Path, tmp_path: Path, hashed: list[str]) -> None:
    cache = make_cache(tmp_path)
    cache.hash_source(checkpoint)
    assert sorted(hashed) == sorted(path.name for path in checkpoint.iterdir())
    cache.save()
    hashed.clear()
    again = make_cache(tmp_path)
    assert again.hash_source(checkpoint) == hash_tree(checkpoint)
    assert hashed == []
    (checkpoint / "model-2-of-2.safetensors").write_bytes(b"y" * 100)
    assert again.hash_source(checkpoint) == hash_tree(checkpoint)
    assert hashed == ["model-2-of-2.safetensors"]


def test_deep_look_reads_everything(checkpoint: Path, tmp_path: Path, hashed: list[str]) -> None:
    cache = make_cache(tmp_path)
    before = cache.hash_source(checkpoint)
    cache.save()
    hashed.clear()
    shard = checkpoint / "model-1-of-2.safetensors"
    shard.write_bytes(b"x" * 100)
    os.utime(shard, (1000, 1000))
    assert make_cache(tmp_path).hash_source(checkpoint) == before
    assert make_cache(tmp_path, deep=True).hash_source(checkpoint) == hash_tree(checkpoint) != before
    assert len(hashed) == 3


def test_what_a_download_keeps_next_to_the_files_does_not_count(checkpoint: Path, tmp_path: Path) -> None:
    before = make_cache(tmp_path).hash_source(checkpoint)
    (checkpoint / ".cache/huggingface").mkdir(parents=True)
    (checkpoint / ".cache/huggingface/config.json.metadata").write_text("downloaded at noon")
    assert make_cache(tmp_path).hash_source(checkpoint) == before
    (checkpoint / ".gitattributes").write_text("*.safetensors lfs")
    assert make_cache(tmp_path).hash_source(checkpoint) != before


@pytest.mark.parametrize("path", ["/", "/proc", "/proc/self/status", "/sys", ".."])
def test_all_files_of_the_machine_and_those_of_its_kernel_are_no_source(tmp_path: Path, path: str) -> None:
    """A pull request that names them would have them searched for hours, or read without end."""
    root = tmp_path / "acme/submission"
    root.mkdir(parents=True)
    assert make_cache(root).hash_source(root / path) is None
    assert hash_code(root / path, make_cache(root)) is None or path == ".."
    (root / "data").write_bytes(b"x")
    assert make_cache(root).hash_source(root / "data") == hash_file(root / "data")


def test_a_file_that_gives_more_than_it_has_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted_files, "_GROWTH", 0)
    with pytest.raises(SpecialFileError, match="more bytes than"):
        hash_file(Path("/proc/self/status"))  # of the kernel: it has no size


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES], ids=["failing", "closed"])
def test_folder_of_which_a_part_cannot_be_listed_has_no_digest(
    number: int, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkpoint / "more").mkdir()
    (checkpoint / "more/weights").write_bytes(b"1")
    real = os.scandir

    def refuse(path: os.PathLike[str]) -> Iterator[os.DirEntry[str]]:
        if Path(path).name == "more":
            raise OSError(number, os.strerror(number), os.fspath(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    if number == errno.EACCES:
        assert make_cache(tmp_path).hash_source(checkpoint) is None
    else:
        with pytest.raises(StorageError, match=r"Input/output error \(EIO\)"):
            make_cache(tmp_path).hash_source(checkpoint)

"""A store's operations one by one, and in which words each of its failures is told."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import StoreError
from reconciler.record.remote import Remote, TransferStoppedError, list_option_variables, open_remote, read_options

pytest.importorskip("fsspec")

from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

SHA = "ab" + 62 * "0"


@pytest.fixture(params=["s3", "memory", "file"])
def remote(request: pytest.FixtureRequest, tmp_path: Path) -> Remote:
    """Of a protocol that shows nothing before the last byte, here over memory, and of those that show each byte."""
    if request.param == "file":
        (tmp_path / "store").mkdir()
        return Remote("file:///store", "file", str(tmp_path / "store"), LocalFileSystem())
    return Remote(
        f"{request.param}://store", request.param, f"/{tmp_path.name}", MemoryFileSystem(skip_instance_cache=True)
    )


def test_a_note_is_written_replaced_read_and_removed(remote: Remote) -> None:
    assert remote.read_note("notes/one") is None
    remote.write_note("notes/one", b"first")
    remote.write_note("notes/one", b"second")
    remote.write_note("notes/two", b"")
    assert (remote.read_note("notes/one"), remote.read_note("notes/two")) == (b"second", b"")
    assert remote.listing() == {"one": 6, "two": 0}
    remote.remove_notes("notes", "one", "none")
    assert remote.listing() == {"two": 0}


def test_an_object_lies_below_its_first_digits_and_is_read_from_anywhere(remote: Remote, tmp_path: Path) -> None:
    source, told = tmp_path / "source", list[int]()
    source.write_bytes(b"0123456789")
    assert remote.size(SHA) is None
    remote.put(source, SHA, told.append)
    assert (remote.size(SHA), sum(told)) == (10, 10)
    assert remote.path(SHA).endswith(f"/ab/{SHA}")
    assert remote.listing() == {SHA: 10}
    assert [b"".join(remote.read(SHA, start)) for start in (0, 4)] == [b"0123456789", b"456789"]
    remote.remove("none")
    remote.remove(SHA)
    assert remote.listing() == {}


def test_a_write_that_is_stopped_leaves_nothing(remote: Remote, tmp_path: Path) -> None:
    def stop(_: int) -> None:
        raise TransferStoppedError

    (tmp_path / "source").write_bytes(b"0123456789")
    with pytest.raises(TransferStoppedError):
        remote.put(tmp_path / "source", SHA, stop)
    assert [name for name in remote.listing() if name != SHA] == []


@pytest.mark.parametrize("protocol", ["s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "sftp", "memory", "file"])
def test_only_where_a_store_shows_parts_of_a_write_is_it_made_under_another_name(protocol: str, tmp_path: Path) -> None:
    """A file is not renamed in a store of objects: that is a second upload."""
    system = Noting(skip_instance_cache=True)
    remote = Remote("a store", protocol, f"/{tmp_path.name}", system)
    (tmp_path / "source").write_bytes(b"0123")
    remote.put(tmp_path / "source", SHA, lambda _: None)
    remote.write_note("note", b"")
    assert system.renamed == (
        [] if protocol not in ("sftp", "memory", "file") else [remote.path(SHA), f"{remote.root}/note"]
    )


class Noting(MemoryFileSystem):  # type: ignore[misc]
    """In memory, and what is renamed there."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)
        self.renamed: list[str] = []

    def mv(self, path1: str, path2: str, **options: object) -> None:
        self.renamed.append(path2)
        super().mv(path1, path2, **options)


class Failing:
    """A file system of which every operation fails alike, as one that is gone."""

    def __init__(self, error: Exception, cause: BaseException | None = None) -> None:
        self.error, self.cause = error, cause

    def __getattr__(self, _: str) -> Callable[..., Any]:
        def fail(*_: object, **__: object) -> None:
            raise self.error from self.cause

        return fail


class StatusError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class AnsweredError(Exception):
    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.response = {"Error": {"Code": code}}


OPERATIONS: dict[str, Callable[[Remote, Path], object]] = {
    "listing": lambda remote, _: remote.listing(),
    "size": lambda remote, _: remote.size(SHA),
    "put": lambda remote, source: remote.put(source, SHA, lambda _: None),
    "write_note": lambda remote, _: remote.write_note("notes/one", b""),
    "read_note": lambda remote, _: remote.read_note("notes/one"),
    "remove_notes": lambda remote, _: remote.remove_notes("notes", "one"),
    "read": lambda remote, _: list(remote.read(SHA)),
}


@pytest.mark.parametrize("protocol", ["s3", "memory"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_tells_what_failed_and_what_to_do(operation: str, protocol: str, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"0")
    remote = Remote("s3://store", protocol, "store", Failing(RuntimeError("broken\npipe")))
    with pytest.raises(StoreError, match=r"^s3://store does not answer: RuntimeError: broken pipe$") as caught:
        OPERATIONS[operation](remote, tmp_path / "source")
    assert "goes on where this one ended" in caught.value.fix
    remote.remove("none")  # what another may have removed meanwhile


REFUSES, GONE = "credentials", "make the bucket or folder"


@pytest.mark.parametrize(
    ("error", "message", "fix"),
    [
        (PermissionError("no"), "s3://store refuses: PermissionError: no", REFUSES),
        (StatusError(401), "s3://store refuses: StatusError: status 401", REFUSES),
        (StatusError(403), "s3://store refuses: StatusError: status 403", REFUSES),
        (StatusError(500), "s3://store does not answer: StatusError: status 500", "goes on"),
        (
            ValueError("Unable to locate Credentials"),
            "s3://store refuses: ValueError: Unable to locate Credentials",
            REFUSES,
        ),
        (ValueError("InvalidAccessKeyId"), "s3://store refuses: ValueError: InvalidAccessKeyId", REFUSES),
        (ValueError("Forbidden"), "s3://store refuses: ValueError: Forbidden", REFUSES),
        (ValueError("401 Unauthorized"), "s3://store refuses: ValueError: 401 Unauthorized", REFUSES),
        (ValueError("AccessDenied"), "s3://store refuses: ValueError: AccessDenied", REFUSES),
        (ValueError("Access Denied"), "s3://store refuses: ValueError: Access Denied", REFUSES),
        (ValueError("ExpiredToken"), "s3://store refuses: ValueError: ExpiredToken", REFUSES),
        *(
            (OSError(number, "no room"), "cannot write to s3://store: no room", "free space there")
            for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
        ),
        (OSError(errno.EIO, "bad"), "s3://store does not answer: OSError: [Errno 5] bad", "goes on"),
        (NotImplementedError(), "s3://store can only be read", "push to a store that can be written"),
        (ValueError(400 * "x"), f"s3://store does not answer: ValueError: {288 * 'x'}", "goes on"),
    ],
)
def test_each_failure_is_told_in_words_of_its_own(error: Exception, message: str, fix: str) -> None:
    with pytest.raises(StoreError) as caught:
        Remote("s3://store", "s3", "store", Failing(error)).write_note("note", b"")
    assert caught.value.message == message
    assert fix in caught.value.fix


@pytest.mark.parametrize(("name", "fix"), [("EMFILE", "ulimit -n"), ("EIO", "dmesg"), ("ESTALE", "mount it again")])
def test_what_a_local_disk_refuses_is_told_as_of_any_disk(name: str, fix: str) -> None:
    number = getattr(errno, name)
    failing = Failing(OSError(number, os.strerror(number), "/lab/store/ab/one"))
    with pytest.raises(StoreError) as caught:
        Remote("file:///lab/store", "file", "/lab/store", failing).write_note("note", b"")
    assert caught.value.message == f"cannot use /lab/store/ab/one: {os.strerror(number)} ({name})"
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (None, ""),
        (FileNotFoundError(), ""),
        (StatusError(404), ""),
        (StatusError(410), ""),
        (AnsweredError("NoSuchKey"), ""),
        (AnsweredError("404"), ""),
        (AnsweredError("NoSuchBucket"), "s3://store is not there: FileNotFoundError: gone"),
        (StatusError(403), "s3://store refuses: StatusError: status 403"),
        (StatusError(500), "s3://store does not answer: StatusError: status 500"),
        (ConnectionError("cut"), "s3://store does not answer: ConnectionError: cut"),
    ],
)
def test_an_absent_object_is_told_from_a_store_that_does_not_answer(cause: Exception | None, said: str) -> None:
    remote = Remote("s3://store", "s3", "store", Failing(FileNotFoundError("gone"), cause))
    if said:
        for ask in (remote.size, remote.read_note, lambda sha256: remote.remove_notes("notes", sha256)):
            with pytest.raises(StoreError) as caught:
                ask(SHA)
            assert caught.value.message == said
    else:
        assert (remote.size(SHA), remote.read_note("note")) == (None, None)
        remote.remove_notes("notes", "one")
        with pytest.raises(FileNotFoundError):
            list(remote.read(SHA))


def test_a_share_that_is_not_mounted_has_no_absent_objects(tmp_path: Path) -> None:
    remote = open_remote(f"file://{tmp_path}/store", {})
    assert remote.listing() == {}
    with pytest.raises(StoreError, match="is not there"):
        remote.size(SHA)
    (tmp_path / "store").mkdir()
    assert remote.size(SHA) is None


@pytest.mark.parametrize(("size", "told"), [(7, 7), (0, 0), (None, -1)])
def test_a_store_may_not_say_how_large_an_object_is(size: int | None, told: int) -> None:
    class Silent:
        def info(self, _: str) -> dict[str, object]:
            return {"size": size}

        def find(self, _: str, detail: bool) -> dict[str, dict[str, object]]:
            return {f"store/ab/{SHA}": {"size": size}} if detail else {}

    remote = Remote("s3://store", "s3", "store", Silent())
    assert (remote.size(SHA), remote.listing()) == (told, {SHA: size or 0})


def test_options_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_KEY", "secret")
    options: dict[str, object] = {"anon": False, "key": ("from_env", "STORE_KEY"), "port": 7}
    assert read_options(options) == {"anon": False, "key": "secret", "port": 7}
    assert list_option_variables(options) == ["STORE_KEY"]
    monkeypatch.setenv("STORE_KEY", "")
    with pytest.raises(StoreError, match="option key of the store: STORE_KEY is not set") as caught:
        read_options(options)
    assert caught.value.fix == "export STORE_KEY=…"


@pytest.mark.parametrize(
    ("protocol", "error", "fix"),
    [
        ("s3", "No module named 'fsspec'", "pip install 'mlperf-reconciler[s3]'"),
        ("s3a", "No module named 'fsspec.core'", "pip install 'mlperf-reconciler[s3]'"),
        ("gs", "No module named 'fsspec'", "pip install 'mlperf-reconciler[gs]'"),
        ("gcs", "No module named 'fsspec'", "pip install 'mlperf-reconciler[gs]'"),
        ("file", "No module named 'fsspec'", "pip install 'mlperf-reconciler[store]'"),
        ("s3", "Install s3fs to access S3", "pip install 'mlperf-reconciler[s3]'"),
        ("s3a", "Install s3fs to access S3", "pip install 'mlperf-reconciler[s3]'"),
        ("gs", "Please install gcsfs", "pip install 'mlperf-reconciler[gs]'"),
        ("gcs", "Please install gcsfs", "pip install 'mlperf-reconciler[gs]'"),
        ("sftp", "SFTPFileSystem requires paramiko", "SFTPFileSystem requires paramiko"),
    ],
)
def test_a_store_whose_library_is_absent_says_what_to_install(
    protocol: str, error: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: str) -> None:
        raise ImportError(error)

    monkeypatch.setattr("fsspec.get_filesystem_class", refuse)
    with pytest.raises(StoreError) as caught:
        open_remote(f"{protocol}://bucket/folder", {})
    assert caught.value.fix == fix
    assert caught.value.message.startswith("cannot open ")
    assert caught.value.message.endswith(f": {error}")

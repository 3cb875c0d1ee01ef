"""A store's operations one by one, and in which words each of its failures is reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import StoreError
from reconciler.storage.parallel_transfers import TransferStoppedError
from reconciler.stores.remote import Remote, list_option_variables, open_remote, read_options

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
    assert remote.list_files() == {"one": 6, "two": 0}
    remote.remove_notes("notes", "one", "none")
    assert remote.list_files() == {"two": 0}


def test_a_write_that_is_stopped_leaves_nothing(remote: Remote, tmp_path: Path) -> None:
    def stop(_: int) -> None:
        raise TransferStoppedError

    (tmp_path / "source").write_bytes(b"0123456789")
    with pytest.raises(TransferStoppedError):
        remote.put(tmp_path / "source", SHA, stop)
    assert [name for name in remote.list_files() if name != SHA] == []


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
    "listing": lambda remote, _: remote.list_files(),
    "size": lambda remote, _: remote.get_size(SHA),
    "put": lambda remote, source: remote.put(source, SHA, lambda _: None),
    "write_note": lambda remote, _: remote.write_note("notes/one", b""),
    "read_note": lambda remote, _: remote.read_note("notes/one"),
    "remove_notes": lambda remote, _: remote.remove_notes("notes", "one"),
    "read": lambda remote, _: list(remote.read(SHA)),
}


@pytest.mark.parametrize("protocol", ["s3", "memory"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_reports_what_failed_and_what_to_do(operation: str, protocol: str, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"0")
    remote = Remote("s3://store", protocol, "store", Failing(RuntimeError("broken\npipe")))
    with pytest.raises(StoreError, match=r"^s3://store does not answer: RuntimeError: broken pipe$") as caught:
        OPERATIONS[operation](remote, tmp_path / "source")
    assert "to continue" in caught.value.fix
    remote.remove("none")  # what another may have removed in the meantime


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (None, ""),
        (FileNotFoundError(), ""),
        (StatusError(404), ""),
        (StatusError(410), ""),
        (AnsweredError("NoSuchKey"), ""),
        (AnsweredError("404"), ""),
        (AnsweredError("NoSuchBucket"), "s3://store does not exist: FileNotFoundError: gone"),
        (StatusError(403), "s3://store refuses: StatusError: status 403"),
        (StatusError(500), "s3://store does not answer: StatusError: status 500"),
        (ConnectionError("cut"), "s3://store does not answer: ConnectionError: cut"),
    ],
)
def test_an_absent_object_is_not_a_store_that_does_not_answer(cause: Exception | None, said: str) -> None:
    remote = Remote("s3://store", "s3", "store", Failing(FileNotFoundError("gone"), cause))
    if said:
        for ask in (remote.get_size, remote.read_note, lambda sha256: remote.remove_notes("notes", sha256)):
            with pytest.raises(StoreError) as caught:
                ask(SHA)
            assert caught.value.message == said
    else:
        assert (remote.get_size(SHA), remote.read_note("note")) == (None, None)
        remote.remove_notes("notes", "one")
        with pytest.raises(FileNotFoundError):
            list(remote.read(SHA))


def test_a_share_that_is_not_mounted_has_no_absent_objects(tmp_path: Path) -> None:
    remote = open_remote(f"file://{tmp_path}/store", {})
    assert remote.list_files() == {}
    with pytest.raises(StoreError, match="does not exist"):
        remote.get_size(SHA)
    (tmp_path / "store").mkdir()
    assert remote.get_size(SHA) is None


def test_options_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_KEY", "secret")
    options: dict[str, object] = {"anon": False, "key": ("from_env", "STORE_KEY"), "port": 7}
    assert read_options(options) == {"anon": False, "key": "secret", "port": 7}
    assert list_option_variables(options) == ["STORE_KEY"]
    monkeypatch.setenv("STORE_KEY", "")
    with pytest.raises(StoreError, match="option key of the store: STORE_KEY is not set") as caught:
        read_options(options)
    assert caught.value.fix == "export STORE_KEY=…"

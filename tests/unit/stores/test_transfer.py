"""Objects to and from a store elsewhere: folders and a real HTTP server, cut off, damaged, refusing and vanishing."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from reconciler.errors import StorageError, StoreError
from reconciler.record.store import find_object, keep
from reconciler.resource.kinds import Address, Kind
from reconciler.storage.files import RepositoryPaths, hash_bytes, hash_file
from reconciler.stores.remote import Remote, open_remote
from reconciler.stores.transfer import (
    ObjectRef,
    Transfer,
    TransferResult,
    TransferStatus,
    foresee_transfer,
    list_pull_due,
    list_push_due,
    pull,
    push,
)

ENGINE = Address(Kind.ENGINE, "open/box/digits/Offline")
CHUNK = 4 << 20


@pytest.fixture
def here(tmp_path: Path) -> RepositoryPaths:
    return RepositoryPaths(tmp_path / "here")


@pytest.fixture
def elsewhere(tmp_path: Path) -> RepositoryPaths:
    return RepositoryPaths(tmp_path / "elsewhere")


def made(paths: RepositoryPaths, tmp_path: Path, *contents: bytes) -> list[ObjectRef]:
    found = []
    for number, data in enumerate(contents):
        source = tmp_path / f"made-{number}"
        source.write_bytes(data)
        artifact = keep(paths, source, f"file-{number}")
        found.append(ObjectRef(artifact.sha256, artifact.size, artifact.name, ENGINE))
        source.unlink()
    return found


def folder(tmp_path: Path) -> Remote:
    return open_remote(f"file://{tmp_path}/store", {})


def pushed(
    paths: RepositoryPaths, remote: Remote, items: list[ObjectRef], *, deep: bool = False
) -> list[TransferResult]:
    transfer = Transfer(paths, remote)
    due, rest, there = list_push_due(transfer, items, deep=deep, parallel=2)
    return push(transfer, due, there, parallel=2) + rest


def pulled(paths: RepositoryPaths, remote: Remote, items: list[ObjectRef]) -> list[TransferResult]:
    due, rest = list_pull_due(paths, items)
    return pull(Transfer(paths, remote), due, parallel=2) + rest


def fates(ended: list[TransferResult]) -> list[TransferStatus]:
    return [item.fate for item in ended]


def test_pushed_objects_are_pulled_elsewhere(here: RepositoryPaths, elsewhere: RepositoryPaths, tmp_path: Path) -> None:
    items = made(here, tmp_path, b"one", b"two" * CHUNK, b"")
    assert fates(pushed(here, folder(tmp_path), items)) == [TransferStatus.MOVED] * 3
    assert fates(pulled(elsewhere, folder(tmp_path), items)) == [TransferStatus.MOVED] * 3
    for item in items:
        assert hash_file(find_object(elsewhere, item.sha256)) == item.sha256
    assert fates(pushed(here, folder(tmp_path), items)) == [TransferStatus.PRESENT] * 3
    assert fates(pulled(elsewhere, folder(tmp_path), items)) == [TransferStatus.PRESENT] * 3
    assert not elsewhere.incoming.exists()
    assert sorted(p.name for p in (tmp_path / "store").rglob("*") if p.is_file()) == sorted(i.sha256 for i in items)


def test_wrong_byte_is_refused_and_named(here: RepositoryPaths, elsewhere: RepositoryPaths, tmp_path: Path) -> None:
    items = made(here, tmp_path, b"the bytes", b"others")
    pushed(here, folder(tmp_path), items)
    stored = tmp_path / "store" / items[0].sha256[:2] / items[0].sha256
    stored.write_bytes(b"THE bytes")
    ended = {item.what.name: item for item in pulled(elsewhere, folder(tmp_path), items)}
    assert (ended["file-0"].fate, ended["file-1"].fate) == (TransferStatus.WRONG, TransferStatus.MOVED)
    assert hash_bytes(b"THE bytes")[:12] in ended["file-0"].why
    assert not find_object(elsewhere, items[0].sha256).exists()
    assert not elsewhere.incoming.exists()
    assert fates(pushed(here, folder(tmp_path), items)) == [TransferStatus.PRESENT] * 2
    repaired = pushed(here, folder(tmp_path), items, deep=True)
    assert sorted(fates(repaired)) == [TransferStatus.MOVED, TransferStatus.PRESENT]
    assert fates(pulled(elsewhere, folder(tmp_path), items[:1])) == [TransferStatus.MOVED]


def test_a_deep_pull_finds_damage(here: RepositoryPaths, elsewhere: RepositoryPaths, tmp_path: Path) -> None:
    items = made(here, tmp_path, b"the bytes", b"others")
    pushed(here, folder(tmp_path), items)
    pulled(elsewhere, folder(tmp_path), items)
    damaged = find_object(elsewhere, items[0].sha256)
    damaged.unlink()
    damaged.write_bytes(b"THE bytes")
    assert list_pull_due(elsewhere, items)[0] == []
    due, rest = list_pull_due(elsewhere, items, deep=True)
    assert (due, fates(rest)) == ([items[0]], [TransferStatus.PRESENT])
    assert fates(pull(Transfer(elsewhere, folder(tmp_path)), due, parallel=1)) == [TransferStatus.MOVED]
    assert damaged.read_bytes() == b"the bytes"


def test_short_and_long_objects_are_refused(here: RepositoryPaths, elsewhere: RepositoryPaths, tmp_path: Path) -> None:
    items = made(here, tmp_path, b"x" * 100, b"y" * 100)
    pushed(here, folder(tmp_path), items)
    for item, data in zip(items, (b"x" * 99, b"y" * 101), strict=True):
        (tmp_path / "store" / item.sha256[:2] / item.sha256).write_bytes(data)
    assert (
        fates(foresee_transfer(Transfer(elsewhere, folder(tmp_path)), items, parallel=1)) == [TransferStatus.WRONG] * 2
    )
    assert fates(pulled(elsewhere, folder(tmp_path), items)) == [TransferStatus.WRONG] * 2
    # another size shows without reading, so that the next push replaces it
    assert fates(pushed(here, folder(tmp_path), items)) == [TransferStatus.MOVED] * 2


def test_damaged_object_here_is_not_pushed(here: RepositoryPaths, tmp_path: Path) -> None:
    items = made(here, tmp_path, b"the bytes")
    path = find_object(here, items[0].sha256)
    path.chmod(0o644)
    path.write_bytes(b"THE bytes")
    (ended,) = pushed(here, folder(tmp_path), items)
    assert ended.fate is TransferStatus.WRONG
    assert "damaged here" in ended.why
    assert folder(tmp_path).list_files() == {}


def test_object_that_no_one_has_is_absent(here: RepositoryPaths, elsewhere: RepositoryPaths, tmp_path: Path) -> None:
    items = made(here, tmp_path, b"one", b"two")
    pushed(here, folder(tmp_path), items[:1])
    ended = {item.what.name: item.fate for item in pulled(elsewhere, folder(tmp_path), items)}
    assert ended == {"file-0": TransferStatus.MOVED, "file-1": TransferStatus.ABSENT}
    ended = {item.what.name: item.fate for item in pushed(elsewhere, folder(tmp_path), items)}
    assert ended == {"file-0": TransferStatus.PRESENT, "file-1": TransferStatus.ABSENT}


def test_a_part_that_is_here_is_kept(here: RepositoryPaths, elsewhere: RepositoryPaths, tmp_path: Path) -> None:
    data = bytes(range(256)) * (CHUNK // 64)
    items = made(here, tmp_path, data)
    pushed(here, folder(tmp_path), items)
    elsewhere.incoming.mkdir(parents=True)
    (elsewhere.incoming / items[0].sha256).write_bytes(data[:-1000])
    # What is here already is not asked for: the store's own first bytes may be gone.
    stored = tmp_path / "store" / items[0].sha256[:2] / items[0].sha256
    stored.write_bytes(b"\0" * (len(data) - 1000) + data[-1000:])
    assert fates(pulled(elsewhere, folder(tmp_path), items)) == [TransferStatus.MOVED]


@pytest.mark.parametrize("part", [b"wrong so far", b"x" * 4096], ids=["shorter", "longer"])
def test_wrong_parts_begin_anew(here: RepositoryPaths, elsewhere: RepositoryPaths, tmp_path: Path, part: bytes) -> None:
    items = made(here, tmp_path, b"the whole of the bytes")
    pushed(here, folder(tmp_path), items)
    elsewhere.incoming.mkdir(parents=True)
    (elsewhere.incoming / items[0].sha256).write_bytes(part)
    assert fates(pulled(elsewhere, folder(tmp_path), items)) == [TransferStatus.MOVED]
    assert find_object(elsewhere, items[0].sha256).read_bytes() == b"the whole of the bytes"


class Vanishing:
    """A file system that fails once a number of bytes has passed, as a network does."""

    def __init__(self, inner: object, after: int) -> None:
        self.inner, self.left, self.lock = inner, after, threading.Lock()

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def open(self, path: str, mode: str, **options: object) -> object:
        return _Stream(self, self.inner.open(path, mode, **options))  # type: ignore[attr-defined]


class _Stream:
    def __init__(self, owner: Vanishing, inner: object) -> None:
        self.owner, self.inner = owner, inner

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.inner.close()  # type: ignore[attr-defined]

    def seek(self, where: int) -> None:
        self.inner.seek(where)  # type: ignore[attr-defined]

    def _spend(self, count: int) -> None:
        with self.owner.lock:
            self.owner.left -= count
            if self.owner.left < 0:
                raise ConnectionResetError(104, "Connection reset by peer")

    def read(self, count: int) -> bytes:
        self._spend(min(count, CHUNK))
        return self.inner.read(count)  # type: ignore[attr-defined, no-any-return]

    def write(self, data: bytes) -> None:
        self._spend(len(data))
        self.inner.write(data)  # type: ignore[attr-defined]


def vanishing(tmp_path: Path, after: int) -> Remote:
    known = folder(tmp_path)
    return Remote(known.url, known.protocol, known.root, Vanishing(known.system, after))


def test_a_store_that_vanishes_during_a_push_shows_no_part(here: RepositoryPaths, tmp_path: Path) -> None:
    items = made(here, tmp_path, *(bytes([n]) * 2 * CHUNK for n in range(4)))
    with pytest.raises(StoreError, match="Connection reset"):
        pushed(here, vanishing(tmp_path, 5 * CHUNK), items)
    there = folder(tmp_path).list_files()
    assert all(there[item.sha256] == item.size for item in items if item.sha256 in there)
    assert 0 < len(there) < 4
    assert not [name for name in there if name.endswith(".partial")]
    again = pushed(here, folder(tmp_path), items)
    assert sorted(fates(again)) == [TransferStatus.MOVED] * (4 - len(there)) + [TransferStatus.PRESENT] * len(there)


def test_a_store_that_vanishes_leaves_a_part(here: RepositoryPaths, elsewhere: RepositoryPaths, tmp_path: Path) -> None:
    items = made(here, tmp_path, b"".join(bytes([n]) * CHUNK for n in range(4)))
    pushed(here, folder(tmp_path), items)
    with pytest.raises(StoreError, match="Connection reset"):
        pulled(elsewhere, vanishing(tmp_path, 2 * CHUNK), items)
    part = elsewhere.incoming / items[0].sha256
    assert part.stat().st_size == 2 * CHUNK
    assert not find_object(elsewhere, items[0].sha256).exists()
    read: list[int] = []
    transfer = Transfer(elsewhere, vanishing(tmp_path, 3 * CHUNK), report=read.append)
    assert fates(pull(transfer, items, parallel=1)) == [TransferStatus.MOVED]
    assert read[0] == 2 * CHUNK  # what was here counts as passed


def test_what_a_killed_push_left_is_removed_once_the_object_is_whole(here: RepositoryPaths, tmp_path: Path) -> None:
    items = made(here, tmp_path, b"one", b"two")
    remote = folder(tmp_path)
    pushed(here, remote, items[:1])
    for item in items:
        at = tmp_path / "store" / item.sha256[:2] / f"{item.sha256}.0a0b0c0d.partial"
        at.parent.mkdir(exist_ok=True)
        at.write_bytes(b"o")
    pushed(here, remote, items[:1])
    left = [name for name in remote.list_files() if name.endswith(".partial")]
    assert left == [f"{items[1].sha256}.0a0b0c0d.partial"]  # another machine may be writing it now
    pushed(here, remote, items)
    assert sorted(remote.list_files()) == sorted(item.sha256 for item in items)


def test_two_pushes_at_once_leave_whole_objects(here: RepositoryPaths, tmp_path: Path) -> None:
    items = made(here, tmp_path, *(bytes([n]) * CHUNK for n in range(6)))
    results: list[list[TransferResult]] = []
    threads = [threading.Thread(target=lambda: results.append(pushed(here, folder(tmp_path), items))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 3
    for item in items:
        assert hash_file(tmp_path / "store" / item.sha256[:2] / item.sha256) == item.sha256
    assert not [name for name in folder(tmp_path).list_files() if name.endswith(".partial")]


def test_a_disk_without_room_is_reported_before_anything_is_read(
    here: RepositoryPaths, elsewhere: RepositoryPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = made(here, tmp_path, b"one")
    pushed(here, folder(tmp_path), items)
    usage = shutil.disk_usage(tmp_path)
    enough = (64 << 20) + 3  # a little stays free
    for free in (1 << 20, enough - 1):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: usage._replace(free=free))
        with pytest.raises(StorageError, match="3 bytes to pull"):
            pulled(elsewhere, folder(tmp_path), items)
        assert not (elsewhere.objects / items[0].sha256[:2] / items[0].sha256).exists()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=enough))
    pulled(elsewhere, folder(tmp_path), items)
    assert (elsewhere.objects / items[0].sha256[:2] / items[0].sha256).exists()


# -- HTTP -----------------------------------------------------------------------------------------------------------


class _Handler(SimpleHTTPRequestHandler):
    """Knows no ranges, as Python's own server. ``status``: what it answers instead."""

    status = 0
    requests: ClassVar[list[str]] = []

    def send_head(self) -> object:  # type: ignore[override]
        self.requests.append(self.headers.get("Range", ""))
        if self.status:
            self.send_error(self.status)
            return None
        return super().send_head()

    def log_message(self, *_: object) -> None:
        pass


class _Ranges(_Handler):
    """Knows them."""

    def send_head(self) -> object:
        wanted = self.headers.get("Range", "")
        path = Path(self.translate_path(self.path))
        if not wanted or self.status or not path.is_file():
            return super().send_head()
        self.requests.append(wanted)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        data = path.read_bytes()
        part = data[int(first) : int(last or len(data)) + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part)
        return None


Served = Callable[..., tuple[str, type[_Handler]]]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    servers = []

    def start(kind: type[_Handler] = _Handler, status: int = 0) -> tuple[str, type[_Handler]]:
        own: type[_Handler] = type("Own", (kind,), {"requests": [], "status": status})
        server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(own, directory=str(tmp_path)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/store", own

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("kind", [_Handler, _Ranges])
def test_objects_are_pulled_over_http_and_go_on_where_the_server_can(
    here: RepositoryPaths, elsewhere: RepositoryPaths, tmp_path: Path, served: Served, kind: type[_Handler]
) -> None:
    data = bytes(range(256)) * 4096
    items = made(here, tmp_path, data, b"two")
    pushed(here, folder(tmp_path), items)
    url, handler = served(kind)
    elsewhere.incoming.mkdir(parents=True)
    (elsewhere.incoming / items[0].sha256).write_bytes(data[:500_000])
    assert fates(pulled(elsewhere, open_remote(url, {}), items)) == [TransferStatus.MOVED] * 2
    assert find_object(elsewhere, items[0].sha256).read_bytes() == data
    asked = [wanted for wanted in handler.requests if wanted]
    assert asked
    assert all(wanted.startswith("bytes=500000-") for wanted in asked)


def test_http_reports_an_absent_object_from_a_server_that_refuses_or_is_gone(
    here: RepositoryPaths, elsewhere: RepositoryPaths, tmp_path: Path, served: Served
) -> None:
    items = made(here, tmp_path, b"one")
    (tmp_path / "store").mkdir()
    url, _ = served()
    remote = open_remote(url, {})
    assert fates(pulled(elsewhere, remote, items)) == [TransferStatus.ABSENT]
    assert fates(foresee_transfer(Transfer(elsewhere, remote), items, parallel=1)) == [TransferStatus.ABSENT]
    with pytest.raises(StoreError, match="is read-only"):
        remote.list_files()  # whose pages could lead on without end
    with pytest.raises(StoreError, match="is read-only"):
        remote.put(find_object(here, items[0].sha256), items[0].sha256, lambda _: None)
    refusing, _ = served(_Handler, 403)
    with pytest.raises(StoreError, match="refuses") as raised:
        pulled(elsewhere, open_remote(refusing, {}), items)
    assert "credentials" in raised.value.fix
    broken, _ = served(_Handler, 500)
    with pytest.raises(StoreError, match="does not answer"):
        pulled(elsewhere, open_remote(broken, {}), items)
    with pytest.raises(StoreError, match="does not answer"):
        pulled(elsewhere, open_remote("http://127.0.0.1:9/store", {}), items)


class _Slow(_Ranges):
    """Gives a little, then waits for longer than anybody would."""

    def copyfile(self, source: object, outputfile: object) -> None:
        data = source.read()  # type: ignore[attr-defined]
        outputfile.write(data[: CHUNK + 1000])  # type: ignore[attr-defined]
        outputfile.flush()  # type: ignore[attr-defined]
        self.waiting.set()
        self.go_on.wait(60)

    waiting: ClassVar[threading.Event] = threading.Event()
    go_on: ClassVar[threading.Event] = threading.Event()


_PULL = """
import sys
from pathlib import Path
from reconciler.storage.files import RepositoryPaths
from reconciler.stores.transfer import ObjectRef
from reconciler.stores.remote import open_remote
from reconciler.stores.transfer import Transfer, pull
from reconciler.resource.kinds import Address, Kind
paths, url, sha256, size = RepositoryPaths(Path(sys.argv[1])), sys.argv[2], sys.argv[3], int(sys.argv[4])
item = ObjectRef(sha256, size, "file", Address(Kind.ENGINE, "open/box/digits/Offline"))
told = Path(sys.argv[1]) / "passed"
pull(Transfer(paths, open_remote(url, {}), report=lambda n: told.write_text(str(n))), [item], parallel=2)
"""


def test_a_pull_that_is_killed_goes_on_where_it_was(
    here: RepositoryPaths, elsewhere: RepositoryPaths, tmp_path: Path, served: Served
) -> None:
    data = bytes(range(256)) * (CHUNK // 64)
    items = made(here, tmp_path, data)
    pushed(here, folder(tmp_path), items)
    _Slow.waiting.clear()
    _Slow.go_on.clear()
    url, _ = served(_Slow)
    reported = elsewhere.root / "passed"
    elsewhere.root.mkdir()
    words = [sys.executable, "-c", _PULL, str(elsewhere.root), url, items[0].sha256, str(items[0].size)]
    with subprocess.Popen(words) as process:
        assert _Slow.waiting.wait(60)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (reported.exists() and reported.read_text() not in ("", "0")):
            time.sleep(0.05)
        process.kill()
    _Slow.go_on.set()
    part = elsewhere.incoming / items[0].sha256
    assert not find_object(elsewhere, items[0].sha256).exists()
    url, handler = served(_Ranges)
    have = part.stat().st_size
    assert 0 < have < len(data)
    assert part.read_bytes() == data[:have]
    assert fates(pulled(elsewhere, open_remote(url, {}), items)) == [TransferStatus.MOVED]
    assert [wanted for wanted in handler.requests if wanted.startswith(f"bytes={have}-")]


def test_ctrl_c_ends_transfers_not_parts(here: RepositoryPaths, elsewhere: RepositoryPaths, tmp_path: Path) -> None:
    items = made(here, tmp_path, *(bytes([n]) * 3 * CHUNK for n in range(3)))
    pushed(here, folder(tmp_path), items)

    pressed: list[int] = []

    def report(passed: int) -> None:
        if passed >= 2 * CHUNK and not pressed:  # once: the beginning of another object reports the same sum again
            pressed.append(passed)
            os.kill(os.getpid(), signal.SIGINT)  # as a key press does
            time.sleep(0.5)

    with pytest.raises(KeyboardInterrupt):
        pull(Transfer(elsewhere, folder(tmp_path), report=report), items, parallel=2)
    assert not elsewhere.objects.exists() or not list(elsewhere.objects.rglob("*.partial"))
    assert [p.name for p in elsewhere.incoming.iterdir()]
    assert fates(pulled(elsewhere, folder(tmp_path), items)).count(TransferStatus.WRONG) == 0
    for item in items:
        assert hash_file(find_object(elsewhere, item.sha256)) == item.sha256


@pytest.mark.parametrize("silent", ["list_files", "read", "put"])
def test_a_store_that_falls_silent_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent: str) -> None:
    """One byte, and then nothing; no one waits for the thread that still does."""
    here = RepositoryPaths(tmp_path / "here")
    (item,) = made(here, tmp_path, b"x" * 5000)
    elsewhere = RepositoryPaths(tmp_path / "elsewhere")
    remote = folder(tmp_path)
    if silent == "read":
        push(Transfer(here, remote), [item], [], parallel=1)

    def never(*_: object) -> Iterator[bytes]:
        threading.Event().wait()
        yield b""

    def blocked(*_: object) -> None:
        threading.Event().wait()

    monkeypatch.setattr(Remote, silent, never if silent == "read" else blocked)
    transfer = Transfer(elsewhere if silent == "read" else here, remote, patience=0.3)
    monkeypatch.setattr("reconciler.storage.parallel_transfers._LAST_BYTES", 0.1)
    started: dict[str, Callable[[], object]] = {
        "list_files": lambda: list_push_due(transfer, [item]),
        "read": lambda: pull(transfer, [item], parallel=2),
        "put": lambda: push(transfer, [item], [], parallel=2),
    }
    with pytest.raises(StoreError, match=r"almost no data transferred for 0\.3 s"):
        started[silent]()

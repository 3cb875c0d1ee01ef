"""One file over HTTP: whole, in parts, and with everything that goes wrong on the way."""

from __future__ import annotations

import email.utils
import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.errors import StoreError
from reconciler.fetch.download import (
    Download,
    Downloaded,
    DownloadLimits,
    DownloadProgress,
    download,
)
from reconciler.fetch.sources import AddressError, Redirects, TransientError, parse_retry_after
from reconciler.rules.benchmark_files import FileDigest
from reconciler.storage.files import Lock
from reconciler.storage.parallel_transfers import TransferStoppedError
from tests.unit.fetch.serving import Behaviour, serve, serve_endlessly

DATA = bytes(range(256)) * 4096  # 1 MiB
# A busy machine makes honest servers slow; what must stall is waited for briefly.
QUICK = DownloadLimits(timeout=30.0, attempts=3, backoff=0.01, patience=30.0)
IMPATIENT = DownloadLimits(timeout=2.0, attempts=3, backoff=0.01, patience=2.0)


def make_digest(data: bytes, algorithm: str = "sha256") -> FileDigest:
    if algorithm == "git":
        named = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False)
        return FileDigest("git", named.hexdigest(), "its publisher")
    return FileDigest(algorithm, hashlib.new(algorithm, data, usedforsecurity=False).hexdigest(), "its publisher")


def plan(folder: Path, *addresses: str, digest: FileDigest | None) -> Download:
    return Download(folder / "data" / "file.bin", addresses, digest, folder / "incoming")


def fetch(item: Download, limits: DownloadLimits = QUICK) -> Downloaded:
    return download(item, limits, DownloadProgress())


@pytest.mark.parametrize("algorithm", ["sha256", "md5", "git"])
def test_a_file_lies_at_its_place_once_its_digest_is_right(tmp_path: Path, algorithm: str) -> None:
    with serve(Behaviour({"/f": DATA})) as address:
        found = fetch(plan(tmp_path, f"{address}/f", digest=make_digest(DATA, algorithm)))
    assert (tmp_path / "data/file.bin").read_bytes() == DATA
    assert found.sha256 == hashlib.sha256(DATA).hexdigest()
    assert [path for path in (tmp_path / "incoming").iterdir() if path.suffix != ".lock"] == []


def test_a_connection_that_breaks_is_gone_on_with(tmp_path: Path) -> None:
    behaviour = Behaviour({"/f": DATA}, cut={0: 1000, 1: 300_000})
    with serve(behaviour) as address:
        fetch(plan(tmp_path, f"{address}/f", digest=None))
    assert (tmp_path / "data/file.bin").read_bytes() == DATA
    tag = behaviour.tag("/f")
    assert behaviour.asked == [("/f", "", ""), ("/f", "bytes=1000-", tag), ("/f", "bytes=301000-", tag)]


def test_a_server_without_ranges_sends_everything_again(tmp_path: Path) -> None:
    behaviour = Behaviour({"/f": DATA}, ranges=False, cut={0: 700_000})
    with serve(behaviour) as address:
        fetch(plan(tmp_path, f"{address}/f", digest=make_digest(DATA)))
    assert (tmp_path / "data/file.bin").read_bytes() == DATA
    assert len(behaviour.asked) == 2


def test_a_file_that_changed_in_the_meantime_is_read_from_its_beginning(tmp_path: Path) -> None:
    behaviour = Behaviour({"/f": DATA}, cut={0: 1000, 1: 0, 2: 0})
    with serve(behaviour) as address:
        item = plan(tmp_path, f"{address}/f", digest=None)
        with pytest.raises(TransientError):
            fetch(item, DownloadLimits(timeout=30.0, attempts=1, backoff=0.01))
        changed = behaviour.files["/f"] = b"another" * 1000
        fetch(item)
    assert (tmp_path / "data/file.bin").read_bytes() == changed


def test_a_part_without_anything_that_proves_the_rest_is_not_gone_on_with(tmp_path: Path) -> None:
    behaviour = Behaviour({"/f": DATA}, tagged=False, cut={0: 1000})
    with serve(behaviour) as address:
        fetch(plan(tmp_path, f"{address}/f", digest=None))
    assert [asked for _, asked, _ in behaviour.asked] == ["", ""]
    assert (tmp_path / "data/file.bin").read_bytes() == DATA


@pytest.mark.parametrize("part", [b"x" * 5000, DATA + b"more"], ids=["damaged", "longer than the file"])
def test_a_wrong_part_is_found_and_read_anew(tmp_path: Path, part: bytes) -> None:
    with serve(Behaviour({"/f": DATA})) as address:
        item = plan(tmp_path, f"{address}/f", digest=make_digest(DATA))
        item.folder.mkdir()
        item.part.write_bytes(part)
        fetch(item)
    assert item.target.read_bytes() == DATA


def test_a_wrong_digest_names_both_and_leaves_nothing(tmp_path: Path) -> None:
    with serve(Behaviour({"/f": DATA})) as address:
        item = plan(tmp_path, f"{address}/f", digest=make_digest(b"other"))
        with pytest.raises(StoreError) as caught:
            fetch(item)
    for part in (hashlib.sha256(DATA).hexdigest(), hashlib.sha256(b"other").hexdigest(), "its publisher", "/f"):
        assert part in caught.value.message
    assert not item.target.exists()
    assert not item.part.exists()


def test_the_next_address_goes_on_where_the_first_failed(tmp_path: Path) -> None:
    behaviour = Behaviour({"/a": DATA, "/b": DATA}, cut={0: 400_000, 1: 0, 2: 0, 3: 0})
    with serve(behaviour) as address:
        fetch(plan(tmp_path, f"{address}/a", f"{address}/b", digest=make_digest(DATA)))
    assert behaviour.asked[-1] == ("/b", "bytes=400000-", "")
    assert (tmp_path / "data/file.bin").read_bytes() == DATA


@pytest.mark.parametrize(("status", "said"), [(404, "404"), (410, "410"), (403, "licence"), (401, "licence")])
def test_a_refusal_is_final_and_says_what_to_do(tmp_path: Path, status: int, said: str) -> None:
    behaviour = Behaviour({}, answers={"/f": [(status, {})]})
    with serve(behaviour) as address, pytest.raises(StoreError) as caught:
        fetch(plan(tmp_path, f"{address}/f", digest=None))
    assert len(behaviour.asked) == 1
    assert said in f"{caught.value.message} {caught.value.fix}"
    assert "--mirror" in caught.value.fix


@pytest.mark.parametrize("status", [429, 503, 500])
def test_a_busy_server_is_asked_again(tmp_path: Path, status: int) -> None:
    behaviour = Behaviour({"/f": DATA}, answers={"/f": [(status, {"Retry-After": "0"}), (status, {})]})
    with serve(behaviour) as address:
        fetch(plan(tmp_path, f"{address}/f", digest=None))
    assert (tmp_path / "data/file.bin").read_bytes() == DATA
    assert len(behaviour.asked) == 3


def test_a_server_that_asks_for_too_long_is_given_up(tmp_path: Path) -> None:
    behaviour = Behaviour({"/f": DATA}, answers={"/f": [(429, {"Retry-After": "86400"})]})
    with serve(behaviour) as address, pytest.raises(StoreError, match="retry in 86400 s"):
        fetch(plan(tmp_path, f"{address}/f", digest=None))


def test_a_pause_is_asked_for_in_seconds_or_as_a_date() -> None:
    now = 1_700_000_000.0
    assert parse_retry_after("30", now) == 30
    assert parse_retry_after(email.utils.formatdate(now + 45, usegmt=True), now) == 45
    assert parse_retry_after(email.utils.formatdate(now - 45, usegmt=True), now) == 0
    assert parse_retry_after("soon", now) == 0


def test_a_server_that_stalls_is_given_up_and_gone_on_with(tmp_path: Path) -> None:
    behaviour = Behaviour({"/f": DATA}, stall={0: 1000})
    with serve(behaviour) as address:
        fetch(plan(tmp_path, f"{address}/f", digest=None), IMPATIENT)
    assert behaviour.asked[1][1] == "bytes=1000-"
    assert (tmp_path / "data/file.bin").read_bytes() == DATA


def test_a_server_that_hardly_sends_anything_is_asked_anew(tmp_path: Path) -> None:
    behaviour = Behaviour({"/f": DATA[:100]}, drip={0: 0.2})
    with serve(behaviour) as address:
        limits = DownloadLimits(timeout=30.0, attempts=3, backoff=0.01, patience=1.0)
        fetch(plan(tmp_path, f"{address}/f", digest=None), limits)
    assert len(behaviour.asked) == 2
    assert behaviour.asked[1][1].startswith("bytes=")
    assert (tmp_path / "data/file.bin").read_bytes() == DATA[:100]


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        pytest.param(Behaviour({"/f": DATA}, shift=1), "sent the wrong byte range", id="other part"),
        pytest.param(Behaviour({"/f": DATA}, total=5000), "after 1,048,576 of 5,000 bytes", id="more than announced"),
    ],
)
def test_a_part_that_does_not_fit_is_refused(tmp_path: Path, behaviour: Behaviour, said: str) -> None:
    behaviour.cut[0] = 1000
    with serve(behaviour) as address, pytest.raises(AddressError, match=said):
        fetch(plan(tmp_path, f"{address}/f", digest=None))
    assert not (tmp_path / "data/file.bin").exists()


def test_a_server_that_never_answers_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:  # bound, and no one listens
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/f"
        with pytest.raises(StoreError) as caught:
            fetch(plan(tmp_path, address, digest=None))
    assert address in caught.value.message
    assert "to continue" in caught.value.fix


def test_redirects_are_followed_with_the_range(tmp_path: Path) -> None:
    behaviour = Behaviour({"/f": DATA}, cut={1: 1000})
    with serve(behaviour) as address:
        behaviour.redirects["/old"] = f"{address}/f"
        fetch(plan(tmp_path, f"{address}/old", digest=None))
    assert behaviour.asked[-1] == ("/f", "bytes=1000-", behaviour.tag("/f"))
    assert (tmp_path / "data/file.bin").read_bytes() == DATA


@pytest.mark.parametrize("target", ["/a", "/b"])
def test_a_loop_of_redirects_ends(tmp_path: Path, target: str) -> None:
    behaviour = Behaviour({}, redirects={"/a": target, "/b": "/a"})
    with serve(behaviour) as address, pytest.raises(StoreError, match="302") as caught:
        fetch(plan(tmp_path, f"{address}/a", digest=None))
    assert len(behaviour.asked) <= 12
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/f"])
def test_a_redirect_leads_to_no_other_protocol(tmp_path: Path, target: str) -> None:
    behaviour = Behaviour({}, redirects={"/a": target})
    with serve(behaviour) as address, pytest.raises(StoreError, match=r"not (followed|allowed)"):
        fetch(plan(tmp_path, f"{address}/a", digest=None))


def test_a_redirect_never_leads_from_https_to_http() -> None:
    import urllib.error
    import urllib.request
    from http.client import HTTPMessage
    from io import BytesIO

    request = urllib.request.Request("https://example.org/f", headers={"Range": "bytes=5-"})
    with pytest.raises(urllib.error.HTTPError, match="from https to http"):
        Redirects().redirect_request(request, BytesIO(), 302, "", HTTPMessage(), "http://example.org/f")
    kept = Redirects().redirect_request(request, BytesIO(), 302, "", HTTPMessage(), "https://example.org/g")
    assert kept.get_header("Range") == "bytes=5-"


def test_an_empty_answer_is_no_file(tmp_path: Path) -> None:
    with serve(Behaviour({"/f": b""})) as address, pytest.raises(StoreError, match="empty"):
        fetch(plan(tmp_path, f"{address}/f", digest=None))
    assert not (tmp_path / "data/file.bin").exists()


@pytest.mark.parametrize("page", [b"<html><body>log in</body></html>", b"\n <!DOCTYPE HTML PUBLIC>\n<p>sorry</p>"])
def test_a_page_in_place_of_a_file_that_nothing_proves_is_refused(tmp_path: Path, page: bytes) -> None:
    with serve(Behaviour({"/f": page})) as address, pytest.raises(StoreError, match="returned a web page") as caught:
        fetch(plan(tmp_path, f"{address}/f", digest=None))
    assert "--mirror" in caught.value.fix
    assert not (tmp_path / "data/file.bin").exists()


def test_more_than_the_largest_file_is_refused(tmp_path: Path) -> None:
    with serve(Behaviour({"/f": DATA}, sized=False)) as address, pytest.raises(StoreError, match="more than 1,000"):
        fetch(plan(tmp_path, f"{address}/f", digest=None), DownloadLimits(timeout=30.0, largest=1000))
    assert not (tmp_path / "data/file.bin").exists()


def test_a_file_of_a_folder_is_copied(tmp_path: Path) -> None:
    source = tmp_path / "mirror folder" / "f.bin"
    source.parent.mkdir()
    source.write_bytes(DATA)
    fetch(plan(tmp_path, source.as_uri(), digest=make_digest(DATA)))
    assert (tmp_path / "data/file.bin").read_bytes() == DATA


@pytest.mark.parametrize(
    ("part", "there"),
    [
        pytest.param(DATA[:5000], b"x" * 5000 + DATA[5000:], id="gone on with"),
        pytest.param(DATA + b"more", DATA, id="too long"),
    ],
)
def test_a_part_is_completed_from_a_folder(tmp_path: Path, part: bytes, there: bytes) -> None:
    (tmp_path / "f.bin").write_bytes(there)
    item = plan(tmp_path, (tmp_path / "f.bin").as_uri(), digest=make_digest(DATA))
    item.folder.mkdir()
    item.part.write_bytes(part)
    fetch(item)
    assert item.target.read_bytes() == DATA


def test_two_at_once_name_each_other(tmp_path: Path) -> None:
    item = plan(tmp_path, "http://127.0.0.1:9/f", digest=None)
    with (
        Lock(item.part.with_suffix(".lock"), purpose="fetching file.bin").acquire(),
        pytest.raises(StoreError, match="held by process"),
    ):
        fetch(item)


def test_a_download_that_is_stopped_keeps_its_part(tmp_path: Path) -> None:
    progress = DownloadProgress()

    def stop(passed: int) -> None:
        progress.stopped.set()

    progress.report = stop
    with serve(Behaviour({"/f": DATA})) as address:
        item = plan(tmp_path, f"{address}/f", digest=None)
        with pytest.raises(TransferStoppedError):
            download(item, QUICK, progress)
    assert not item.target.exists()
    assert item.part.is_file()


def test_a_killed_download_is_gone_on_with(tmp_path: Path) -> None:
    behaviour = Behaviour({"/f": DATA}, stall={0: 300_000})
    with serve(behaviour) as address:
        code = (
            "import sys; from pathlib import Path\n"
            "from reconciler.fetch.download import *\n"
            "folder, address = Path(sys.argv[1]), sys.argv[2]\n"
            "item = Download(folder / 'data' / 'file.bin', (address,), None, folder / 'incoming')\n"
            "download(item, DownloadLimits(timeout=60), DownloadProgress())\n"
        )
        child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), f"{address}/f"])
        item = plan(tmp_path, f"{address}/f", digest=None)
        give_up = time.monotonic() + 60
        while not (item.part.is_file() and item.part.stat().st_size > 0) and time.monotonic() < give_up:
            time.sleep(0.02)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        have = item.part.stat().st_size
        assert have > 0
        fetch(item)
    assert behaviour.asked[-1][1] == f"bytes={have}-"
    assert item.target.read_bytes() == DATA


OK, CHUNKED = b"HTTP/1.1 200 OK\r\n", b"Transfer-Encoding: chunked\r\n\r\n"
ELSEWHERE = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{port}/else\r\n\r\n"
ENDLESS = {
    "a head that never ends": (OK, b"a"),
    "heads before the head": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "a length of a chunk": (OK + CHUNKED + b"4;", b"a"),
    "what follows the last chunk": (OK + CHUNKED + b"4\r\nabcd\r\n0\r\n", b"a: b\r\n" * 100),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_a_server_that_talks_without_end_is_given_up(tmp_path: Path, what: str) -> None:
    head, again = ENDLESS[what]
    with serve_endlessly(head, again) as address, pytest.raises(TransientError, match="timed out"):
        fetch(plan(tmp_path, f"{address}/f", digest=None), DownloadLimits(timeout=0.5, attempts=1, patience=0.5))


def test_what_comes_with_a_redirect_is_not_read(tmp_path: Path) -> None:
    """It has no end here, and was kept in memory."""
    with serve_endlessly(ELSEWHERE, bytes(1 << 16)) as address, pytest.raises(AddressError, match="infinite loop"):
        fetch(plan(tmp_path, f"{address}/f", digest=None))


@pytest.mark.parametrize("count", [b"9" * 5000, b"\xb2", b"-1", b"1_0"], ids=["5,000 digits", "²", "-1", "1_0"])
def test_a_count_that_is_none_ends_as_a_finding_about_its_address(tmp_path: Path, count: bytes) -> None:
    reported = {
        b"HTTP/1.1 503 Busy\r\nRetry-After: %s\r\n\r\n": "answered 503 Busy",
        b"HTTP/1.1 206 Part\r\nContent-Range: bytes 0-3/%s\r\n\r\nabcd": "wrong byte range",
    }
    for answer, said in reported.items():
        with serve_endlessly(answer % count, b"") as address, pytest.raises(StoreError, match=said):
            fetch(plan(tmp_path, f"{address}/f", digest=None), DownloadLimits(timeout=30.0, attempts=1))
    with serve_endlessly(OK + b"Content-Length: %s\r\n\r\nabcd" % count, b"") as address:
        assert fetch(plan(tmp_path, f"{address}/g", digest=make_digest(b"abcd"))).size == 4


@pytest.mark.parametrize("place", [Path.symlink_to, Path.hardlink_to, lambda path, _: os.mkfifo(path)])
def test_what_others_put_in_place_of_a_part_is_not_written(tmp_path: Path, place: Callable[[Path, Path], None]) -> None:
    """Others who write into a shared scratch space know the name of a part; a link there would lead to our files."""
    mine = tmp_path / "mine"
    mine.write_text("mine")
    with serve(Behaviour({"/f": DATA})) as address:
        item = plan(tmp_path, f"{address}/f", digest=make_digest(DATA))
        item.folder.mkdir()
        place(item.part, mine)
        with pytest.raises((OSError, StoreError)):
            fetch(item)
    assert mine.read_text() == "mine"


def test_a_pipe_in_a_mirror_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AddressError, match="not a regular file"):
        fetch(plan(tmp_path, (tmp_path / "pipe").as_uri(), digest=None))

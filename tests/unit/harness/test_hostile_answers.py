"""What servers and directors of others say: no room is made for what they only claim, and each lie has a name."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.backends.triton import connection
from harness.backends.triton.metrics import parse_metrics
from harness.backends.triton.server import TritonServer
from harness.errors import HarnessError
from harness.verbs import power


@contextmanager
def say(answer: bytes) -> Iterator[int]:
    """A server that answers each request so, and hangs up. -> Its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    peer, _ = listening.accept()
                except OSError:
                    return
                with peer:
                    peer.recv(1 << 16)
                    peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def http(body: bytes, *fields: str) -> bytes:
    return "\r\n".join(["HTTP/1.1 200 OK", *fields, "", ""]).encode() + body


@pytest.mark.parametrize(
    "field",
    [
        "Content-Length: 1125899906842624",
        f"Content-Length: {'9' * 5000}",
        "Content-Length: -5",
        "Content-Length: 1e3",
        "Inference-Header-Content-Length: 90",
        "Inference-Header-Content-Length: -1",
    ],
)
def test_an_answer_of_a_size_that_cannot_be_is_refused_before_there_is_room(field: str) -> None:
    with say(http(b"{}", *([] if field.startswith("Content") else ["Content-Length: 2"]), field)) as port:
        asking = connection.Connection("127.0.0.1", port, 5)
        with pytest.raises(ValueError, match="the server says"):
            asking.ask(b"POST / HTTP/1.1\r\n\r\n", [])
        asking.close()


def test_a_document_without_an_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_MOST_TOLD", 1000)
    with say(http(b"x" * 5000)) as port, pytest.raises(OSError, match="more than 1,000 bytes"):
        connection.get("127.0.0.1", port, "/metrics", 5)


@pytest.mark.parametrize("document", [b"[" * 50_000, b"[]", b"7", b"null", b"\xff", b"", b'{"a": ' * 50_000])
def test_what_is_no_document_is_named(document: bytes, tmp_path: Path) -> None:
    with say(http(document)) as port:
        server = TritonServer("127.0.0.1", port, "m", 5.0, tmp_path / "none")
        with pytest.raises(HarnessError, match="/v2 is not a document"):
            server.ask("/v2")


def test_numbers_without_end_count_for_nothing() -> None:
    text = "".join(f'nv_inference_count{{model="m"}} {value}\n' for value in ("inf", "nan", "1e999", "x", "2"))
    assert parse_metrics(text, "m") == ({"count": 2.0}, {})


SAMPLES = "Time,01-01-2026 00:00:00.000,Watts,200.5,Volts,230.0\n"
DAMAGED: dict[str, tuple[str, Callable[[str], str | bytes], str]] = {
    "no name": ("power/client.json", lambda text: text[:-2], "client.json of the session is damaged"),
    "a list": ("power/client.json", lambda _: "[]", "client.json of the session is damaged"),
    "brackets": ("power/client.json", lambda _: "[" * 50_000, "client.json of the session is damaged"),
    "bytes": ("power/client.json", lambda _: b"\xff\xfe\x00", "client.json of the session is damaged"),
    "no samples": ("run_1/spl.txt", lambda _: b"\x00\xff" * 500, "hold no power"),
    "not ready": ("run_1/spl.txt", lambda text: text.replace("200.5", "-1"), "hold no power"),
    "power without end": ("run_1/spl.txt", lambda text: text.replace("200.5", "9" * 400), "hold no power"),
    "samples without end": ("run_1/spl.txt", lambda text: text * 50, "more than 1,000 bytes"),
}


def make_session(folder: Path) -> Path:
    for name, text in {"power/client.json": json.dumps({"session_name": "one"}), "run_1/spl.txt": SAMPLES * 2}.items():
        (folder / name).parent.mkdir()
        (folder / name).write_text(text, encoding="ascii")
    return folder


def test_a_whole_session_is_described(tmp_path: Path) -> None:
    assert power._describe(make_session(tmp_path)) == {"session": "one", "watts": "200.5", "samples": 2}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_a_director_sent_and_cannot_be_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(power, "_LARGEST", 1000 if "samples without end" in name else power._LARGEST)
    file, damage, problem = DAMAGED[name]
    path = make_session(tmp_path) / file
    damaged = damage(path.read_text(encoding="ascii"))
    path.write_bytes(damaged if isinstance(damaged, bytes) else damaged.encode())
    with pytest.raises(HarnessError, match=problem):
        power._describe(tmp_path)

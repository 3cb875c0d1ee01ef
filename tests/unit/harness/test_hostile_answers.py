"""What servers and directors of others say: no room is made for what they only claim, and each lie has a name."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.backends.triton import ServedWork, protocol, read_work
from harness.backends.triton.server import TritonServer
from harness.errors import HarnessError


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
        asking = protocol.Connection("127.0.0.1", port, 5)
        with pytest.raises(ValueError, match="the server says"):
            asking.ask(b"POST / HTTP/1.1\r\n\r\n", [])
        asking.close()


def test_a_document_without_an_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_LONGEST_MESSAGE", 1000)
    with say(http(b"x" * 5000)) as port, pytest.raises(OSError, match="more than 1,000 bytes"):
        protocol.get("127.0.0.1", port, "/metrics", 5)


@pytest.mark.parametrize("document", [b"[" * 50_000, b"[]", b"7", b"null", b"\xff", b"", b'{"a": ' * 50_000])
def test_what_is_no_document_is_named(document: bytes, tmp_path: Path) -> None:
    with say(http(document)) as port:
        server = TritonServer("127.0.0.1", port, "m", 5.0, tmp_path / "none")
        with pytest.raises(HarnessError, match="/v2 is not a document"):
            server.ask("/v2")


@pytest.mark.parametrize("count", ["1e999", "NaN", '"x"', "null", "[]"])
def test_numbers_without_end_count_for_nothing(count: str, tmp_path: Path) -> None:
    steps = ", ".join(f'"{name}": {{"count": 1, "ns": 1}}' for name in ("success", "fail", "queue", "compute_output"))
    steps += ', "compute_input": {"ns": 1}, "compute_infer": {"ns": 1}'
    stats = f'{{"inference_count": {count}, "execution_count": 1, "inference_stats": {{{steps}}}, "batch_stats": []}}'
    with say(http(f'{{"model_stats": [{stats}]}}'.encode())) as port:
        assert read_work(TritonServer("127.0.0.1", port, "m", 5.0, tmp_path / "none")) == ServedWork()

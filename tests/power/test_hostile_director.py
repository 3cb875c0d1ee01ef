"""Directors that answer slowly, never, or with what is no answer: the run ends by itself, and nothing of it counts."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from reconciler.execute.executors.executor import Capacity
from reconciler.execute.executors.local import LocalExecutor
from reconciler.execute.outcome import Status
from tests.passes.crashing import wait_for_end_of
from tests.passes.repository import SPEC
from tests.power.test_measured_passes import RUN, make_metered
from tests.shared import need

need("mlperf_loadgen")

Talk = Callable[[socket.socket, threading.Event], object]


def dribble(peer: socket.socket, over: threading.Event) -> None:
    """A byte now and then, and never the end of a line."""
    while not over.wait(0.2):
        peer.sendall(b"1")


def say(peer: socket.socket, *answers: str) -> None:
    """To a client that asks for the time first."""
    for answer in (str(time.time()), *answers):
        peer.recv(1 << 16)
        peer.sendall(f"{answer}\n".encode())


def fall_silent(peer: socket.socket, over: threading.Event) -> None:
    """Once the first of the two runs has begun."""
    say(peer, "OK s", "OK")
    over.wait()


DIRECTORS: dict[str, tuple[Talk, str]] = {
    "a byte at a time": (dribble, "start work"),
    "never again": (fall_silent, "no progress for|no sample was completed for"),
    "garbage": (lambda peer, _: peer.sendall(b"\xff\x00\n" * 50), "kit's client"),
    "another time": (lambda peer, _: peer.sendall(b"1e400\n"), "kit's client"),
    "refuses": (lambda peer, _: say(peer, "OK s", "Error"), "kit's client"),
}


@contextmanager
def direct(talk: Talk) -> Iterator[str]:
    """-> The address of a director that talks so to anyone who connects."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while not over.is_set():
                with suppress(OSError):
                    peer, _ = listening.accept()
                    with peer:
                        talk(peer, over)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            over.set()
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("name", DIRECTORS)
def test_a_false_director_fails_the_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    talk, problem = DIRECTORS[name]
    monkeypatch.setattr(
        LocalExecutor, "get_capacity", lambda *_: Capacity("quiet", 3.0 if "start work" in problem else 60.0)
    )
    with direct(talk) as address:
        repository = make_metered(tmp_path / "lab", address)
        repository.edit(SPEC, "batch_size: 4}", "batch_size: 4}\n      run: {stall_timeout: 1 s}")
        report = repository.reconcile(only=("Run",), select=("mode=performance",))
    (failed,) = [outcome for outcome in report.outcomes if outcome.status is not Status.DONE]
    assert str(failed.step.change.address) == RUN
    assert any(word in failed.message for word in problem.split("|")), failed.message
    assert failed.fix
    assert wait_for_end_of(tmp_path) == []
    assert not [r for r in repository.records().values() if str(r.address) == RUN and r.key in repository.done()]

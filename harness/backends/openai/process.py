"""A client process of a run: ``python -P -m harness.backends.openai.process DESCRIPTOR``."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from harness.backends.openai.client import Client
from harness.backends.openai.serving import find_server
from harness.child.piped_process import serve_pipe
from harness.errors import HarnessError, explain
from harness.run.tokens import GenerationPlan


class ClientServer:
    """Executes the commands from the pipe, and reports through it the progress of prompts."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._lock = pipe, threading.Lock()

    def serve(self) -> None:
        """Serve until the command to close. Raises EOFError if the other side has ended."""
        (plan_values,) = self._pipe.recv()
        first, completed = partial(self._send, "first"), partial(self._send, "completed")
        plan = GenerationPlan(**plan_values, first=first, completed=completed, failed=self._fail)
        try:
            client = Client(plan, find_server(plan))
        except Exception as error:
            self._send("problem", *_take_apart(error))
            return
        gc.freeze()
        gc.disable()  # as in LoadGen's process: a run creates no reference cycles
        self._send("answer", dict(client.notes), dict(client.evidence))
        does: Mapping[str, Callable[..., None]] = {
            "place": partial(self._place, client),
            "submit": client.submit,
            "stop": lambda *said: client.stop(HarnessError(*said)),
        }
        while (message := self._pipe.recv())[0] != "close":
            does[message[0]](*message[1:])
        client.close()
        self._send("answer", dict(client.notes))

    def _place(self, client: Client, prompts: Sequence[Any], stops: Sequence[int]) -> None:
        client.place(prompts, stops)
        self._send("answer")

    def _fail(self, identity: int, error: BaseException) -> None:
        self._send("failed", identity, *_take_apart(error))

    def _send(self, *message: Any) -> None:
        with self._lock:
            self._pipe.send(message)


def _take_apart(error: BaseException) -> tuple[str, str, str]:
    known = explain(error)
    return known.problem, known.problem_class, known.fix


def main(arguments: list[str]) -> None:
    serve_pipe(arguments, lambda pipe: ClientServer(pipe).serve())


if __name__ == "__main__":
    main(sys.argv[1:])

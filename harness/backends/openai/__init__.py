"""Servers that speak the OpenAI protocol: vLLM, SGLang, trtllm-serve, llama.cpp's server, OpenVINO Model Server, …

The server batches; this side sends prompts and reads streams. The client uses aiohttp, whose compiled parser handles a
thousand streams in one thread; more streams need several processes.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import aiohttp
import numpy as np

from harness.backends.openai.client import Client
from harness.backends.openai.serving import Server, find_server
from harness.catalog import OpenaiRunOptions
from harness.child.piped_process import end_process, start_process
from harness.contract import Fact, as_evidence
from harness.errors import HarnessError
from harness.machine.facts import count_usable_cores
from harness.run.tokens import Answer, GenerationPlan, Generator


def facts() -> dict[str, Fact]:
    """Return facts about the client. The server is identified by the service's own inputs, or not at all."""
    return as_evidence({"backend.version": aiohttp.__version__, "backend.digest": ""})


def load(plan: GenerationPlan) -> Generator:
    """Connect to the server. Raises HarnessError if none answers, the key is refused, or another model is served."""
    server = find_server(plan)
    count = choose_count(plan, server, count_usable_cores())
    return Clients(plan, server.concurrency, count) if count > 1 else Client(plan, server)


# Several client processes share the streams of a run if one core cannot read them all. LoadGen stays in this process.
#
# All of them use the same servers. Each has its share of the requests in flight and receives prompts while it has room,
# the least busy process first. Each reports back through its pipe.

_STREAMS = 1024  # streams that one core reads with time to spare
_ENDS = 60.0  # seconds that a process may take to close its connections
_CALLBACKS = ("first", "completed", "failed")


def choose_count(plan: GenerationPlan, server: Server, cores: int) -> int:
    """Choose the number of processes; by default one if answers are not streamed."""
    declared = OpenaiRunOptions(plan.options).client_processes
    streams = server.concurrency * len(server.urls)
    if declared > server.concurrency:
        problem = f"{declared} client processes cannot share {server.concurrency} requests"
        raise HarnessError(problem, "input", "lower run.options.client_processes, or raise concurrency")
    if declared or not plan.streaming:
        return declared or 1
    return max(1, min(math.ceil(streams / _STREAMS), cores // 4))


class Process:
    """The parent's view of a client process. ``flight``: its prompts in flight, at most ``room`` for each replica."""

    def __init__(self, start_values: Sequence[Any], room: int, owner: Clients) -> None:
        self.room, self.flight = room, set[int]()
        self._owner = owner
        self._answers: SimpleQueue[Any] = SimpleQueue()
        self._lock = threading.Lock()
        self._pipe, self._process = start_process("harness.backends.openai.process", {})
        self.send(*start_values)
        self._thread = threading.Thread(target=self._follow, name="client", daemon=True)
        self._thread.start()

    def send(self, *message: Any) -> None:
        with self._lock, suppress(OSError):  # the process has ended; the thread that follows it reports that
            self._pipe.send(message)

    def wait(self) -> Any:
        """Wait for the process's answer. Raises HarnessError if the answer is an error, or the process has ended."""
        found = self._answers.get()
        if isinstance(found, HarnessError):
            self._answers.put(found)  # a second request gets the same answer
            raise found
        return found

    def end(self, patience: float = 0.0) -> None:
        """End the process. ``patience``: seconds that it has to end by itself."""
        self.send("close")
        end_process(self._process, patience)
        self._thread.join()
        self._pipe.close()

    def _follow(self) -> None:
        try:
            while True:
                kind, *said = self._pipe.recv()
                if kind == "first":
                    self._owner.first(*said)
                elif kind == "completed":
                    self._owner.completed(self, *said)
                elif kind == "failed":
                    self._owner.failed(self, said[0], HarnessError(*said[1:]))
                else:
                    self._answers.put(HarnessError(*said) if kind == "problem" else said)
        except (OSError, EOFError):
            lost = HarnessError("a client process ended", "resources", "see its last output in the log of this run")
            self._answers.put(lost)
            self._owner.lose(self, lost)


class Clients:
    """A generator."""

    def __init__(self, plan: GenerationPlan, concurrency: int, count: int) -> None:
        self._plan = plan
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, int]] = deque()
        self._failure: HarnessError | None = None
        self._processes: list[Process] = []
        replicas = 1
        start_values = {name: getattr(plan, name) for name in plan.__slots__ if name not in _CALLBACKS}
        try:
            for number in range(count):
                room = concurrency // count + (number < concurrency % count)
                options = {**plan.options, "concurrency": room, "client_processes": 1}
                self._processes.append(Process([{**start_values, "options": options}], room, self))
            for process in self._processes:
                notes, evidence = process.wait()
                replicas = notes["replicas"]
                process.room *= replicas
        except BaseException:
            for process in self._processes:
                process.end()
            raise
        self.notes: dict[str, Any] = {**notes, "client_processes": count}
        self.evidence: Mapping[str, Any] = evidence

    def place(self, prompts: Sequence[np.ndarray], stops: Sequence[int] = ()) -> None:
        for process in self._processes:
            process.send("place", list(prompts), stops)
        for process in self._processes:
            process.wait()

    def submit(self, identity: int, row: int) -> None:
        with self._lock:
            self._waiting.append((identity, row))
        self._dispatch()

    def close(self) -> None:
        for process in self._processes:
            process.send("close")
        took = 0.0
        for process in self._processes:
            with suppress(HarnessError):  # it has already ended
                (said,) = process.wait()
                took += said.get("tokenizer_seconds", 0.0)
            process.end(_ENDS)
        if took:
            self.notes["tokenizer_seconds"] = round(took, 6)

    # Called by the threads that follow the processes.

    def first(self, identity: int, tokens: Sequence[int]) -> None:
        self._plan.first(identity, tokens)

    def completed(self, process: Process, identity: int, answer: Answer) -> None:
        with self._lock:
            process.flight.discard(identity)
        self._plan.completed(identity, answer)
        self._dispatch()

    def failed(self, process: Process, identity: int, error: HarnessError) -> None:
        with self._lock:
            process.flight.discard(identity)
        self._stop(process, error)
        self._plan.failed(identity, error)
        self._dispatch()

    def lose(self, process: Process, lost: HarnessError) -> None:
        self._stop(process, lost)
        for identity in list(process.flight):  # after the first failure no prompt is added
            self._plan.failed(identity, lost)
        self._dispatch()

    def _stop(self, process: Process, error: HarnessError) -> None:
        """Stop after a failure: send nothing more, and give up requests in flight elsewhere."""
        with self._lock:
            first, self._failure = self._failure is None, self._failure or error
        for other in self._processes if first else ():
            if other is not process:
                other.send("stop", error.problem, error.problem_class, error.fix)

    def _dispatch(self) -> None:
        """Send as many prompts as there is room for; after a failure, fail all waiting prompts instead."""
        while True:
            with self._lock:
                if not self._waiting:
                    return
                process = min(self._processes, key=lambda process: len(process.flight) / process.room)
                if self._failure is None and len(process.flight) >= process.room:
                    return
                identity, row = self._waiting.popleft()
                if self._failure is None:
                    process.flight.add(identity)
                    process.send("submit", identity, row)
                    continue
            self._plan.failed(identity, self._failure)

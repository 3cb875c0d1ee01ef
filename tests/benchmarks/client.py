"""Measure the capacity of the ``openai`` backend's client: ``python -m tests.benchmarks.client [--json] [--rounds N]``.

A server on this machine computes nothing (``streaming_server``) and sends one event and packet per token in STREAMS
streams:

- rate: tokens per second of processor time of the client, as fast as the server writes: the capacity of one core.
- shared: the same with two client processes and this one, where LoadGen runs.
- first: the time that the client adds to the time to the first token at the 99th percentile, at half of GOAL: from the
  prompt's submission to its arrival at the server, and from the token's departure to the callback. The first STREAMS
  prompts, which arrive at once and open the connections, do not count.
"""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import psutil

from harness.backends import openai
from harness.run.tokens import GenerationPlan, Sampling
from tests.benchmarks.rounds import Measure, arguments, report

STREAMS, TOKENS = 1000, 128
GOAL, UNPACED = 100_000, 10**9  # tokens/s
ANSWERS = 3000
FIRST_LIMIT_MS = 50.0
CLIENT = "harness.backends.openai.process"


@dataclass(slots=True)
class Asking:
    """Keeps ``streams`` prompts in progress until ``answers`` have arrived."""

    streams: int
    answers: int
    submitted: dict[int, int] = field(default_factory=dict)
    firsts: dict[int, int] = field(default_factory=dict)
    tokens: int = 0
    done: int = 0
    problem: BaseException | None = None
    over: threading.Event = field(default_factory=threading.Event)
    client: Any = None

    def begin(self) -> None:
        for _ in range(self.streams):
            self._submit()

    def _submit(self) -> None:
        number = len(self.submitted)
        if number < self.answers:
            self.submitted[number] = time.monotonic_ns()
            self.client.submit(number, number)

    def first(self, identity: int, _tokens: Sequence[int]) -> None:
        self.firsts[identity] = time.monotonic_ns()

    def completed(self, _identity: int, tokens: Sequence[int] | int) -> None:
        self.tokens += tokens if isinstance(tokens, int) else len(tokens)
        self.done += 1
        self._submit()
        if self.done == self.answers:
            self.over.set()

    def failed(self, _identity: int, error: BaseException) -> None:
        self.problem = error
        self.over.set()


@dataclass(frozen=True, slots=True)
class Measured:
    """``busy``: processor seconds of the client; ``server``: of the server; ``added``: ms for each first token."""

    tokens: int
    seconds: float
    busy: float
    server: float
    added: tuple[float, ...]


def ask(streams: int, answers: int, rate: float, processes: int = 1) -> Measured:
    command = [sys.executable, "-m", "tests.benchmarks.streaming_server", str(TOKENS), str(rate)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = f"http://127.0.0.1:{int(server.stdout.readline())}"
            return _ask(url, Asking(streams, answers), processes)
        finally:
            server.kill()


def _ask(url: str, asking: Asking, processes: int) -> Measured:
    plan = GenerationPlan(
        model=None,
        source=None,
        scenario="Server",
        sampling=Sampling(max_new_tokens=2 * TOKENS),
        streaming=True,
        logged=False,
        threads=0,
        precision="bf16",
        options={"url": url, "concurrency": asking.streams, "client_processes": processes},
        first=asking.first,
        completed=asking.completed,
        failed=asking.failed,
    )
    asking.client = openai.load(plan)
    asking.client.place([np.array([number, 1, 2, 3]) for number in range(asking.answers)])
    gc.collect()
    gc.disable()  # as in a run
    began, busy = time.monotonic(), _read_processor_time()
    asking.begin()
    asking.over.wait()
    seconds, busy = time.monotonic() - began, _read_processor_time() - busy
    gc.enable()
    if asking.problem is not None:
        raise asking.problem
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{url}/times") as answer:
        reported = json.load(answer)
    asking.client.close()
    times = {int(prompt): times for prompt, times in reported["times"].items()}
    added = (times[i][0] - asking.submitted[i] + asking.firsts[i] - times[i][1] for i in sorted(times))
    return Measured(asking.tokens, seconds, busy, reported["busy"], tuple(ns / 1e6 for ns in added))


def _read_processor_time() -> float:
    """Return the processor seconds of this process and its client processes."""
    started = [child for child in psutil.Process().children() if CLIENT in child.cmdline()]
    return time.process_time() + sum(sum(child.cpu_times()[:2]) for child in started)


def measure_rate(rounds: int, processes: int = 1) -> Measure:
    found = [ask(STREAMS, ANSWERS, UNPACED, processes) for _ in range(rounds)]
    per_core = statistics.median(measured.tokens / measured.busy for measured in found)
    wall = statistics.median(measured.tokens / measured.seconds for measured in found)
    server = statistics.median(measured.tokens / measured.server for measured in found)
    whose = "the client's" if processes == 1 else f"{processes} client processes'"
    name = f"tokens of {STREAMS} streams for each second of {whose} processor time"
    detail = f"{wall:,.0f}/s by the clock of this machine, {server:,.0f} for each second of the server's"
    return Measure(name, per_core, GOAL, detail=detail)


def measure_first(rounds: int) -> Measure:
    rate = GOAL / 2
    found = [ask(STREAMS, ANSWERS + STREAMS, rate) for _ in range(rounds)]
    steady = [measured.added[STREAMS:] for measured in found]
    tails = [statistics.quantiles(added, n=100)[98] for added in steady]
    middle = statistics.median(statistics.median(added) for added in steady)
    measured = statistics.median(measured.tokens / measured.seconds for measured in found)
    name = f"added to the first token at the 99th percentile, {STREAMS} streams, {rate:,.0f} tokens/s asked for"
    detail = f"{middle:.2f} ms at the median, {measured:,.0f} tokens/s by the clock"
    return Measure(name, statistics.median(tails), FIRST_LIMIT_MS, at_least=False, unit=" ms", detail=detail)


PARTS = {"rate": measure_rate, "shared": partial(measure_rate, processes=2), "first": measure_first}


def main() -> int:
    options = arguments("what one client process holds")
    measures = [part(options.rounds) for name, part in PARTS.items() if options.only in name]
    return report("client", measures, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())

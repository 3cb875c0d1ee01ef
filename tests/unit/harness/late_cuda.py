"""A CUDA driver in host memory that does its work late: streams go on in any order that events allow.

What reads a buffer before it is filled, or fills one that is still read, gives wrong numbers under some order.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable

from tests.unit.harness.fake_cuda import Fake

Step = Callable[[], bool]
"""Does its work if it may go on yet; whether it did."""


class Late(Fake):
    """``seed`` decides the order."""

    def __init__(self, seed: int, devices: int = 1) -> None:
        super().__init__(devices=devices)
        self._random = random.Random(seed)
        self._queues: dict[int, deque[Step]] = {}
        self._happened: dict[int, list[bool]] = {}  # event -> whether what it was last recorded after is done
        self._lock = threading.RLock()

    def enqueue(self, stream: int, work: Callable[[], None]) -> None:
        def step() -> bool:
            work()
            return True

        with self._lock:
            self._queue(stream).append(step)
            if self._random.random() < 0.3:
                self._advance()

    def record(self, event: int, stream: int) -> None:
        super().record(event, stream)
        if int(stream) in self.captured:
            return
        happened = [False]

        def step() -> bool:
            happened[0] = True
            return True

        with self._lock:
            self._happened[event] = happened
            self._queue(int(stream)).append(step)

    def follow(self, stream: int, event: int) -> None:
        super().follow(stream, event)
        if int(stream) in self.captured:
            return
        with self._lock:
            happened = self._happened.get(event, [True])
            self._queue(int(stream)).append(lambda: happened[0])

    def wait_for_event(self, event: int) -> None:
        with self._lock:
            happened = self._happened.get(event, [True])
        self._until(lambda: happened[0])

    def wait_for_stream(self, stream: int) -> None:
        self._until(lambda: not self._queue(int(stream)))

    def _queue(self, stream: int) -> deque[Step]:
        return self._queues.setdefault(stream, deque())

    def _until(self, reached: Callable[[], bool]) -> None:
        while True:
            with self._lock:
                if reached():
                    return
                if not self._advance():
                    raise AssertionError("streams wait for each other")

    def _advance(self) -> bool:
        """One step of one stream; whether any could go on."""
        busy = [stream for stream, queue in self._queues.items() if queue]
        self._random.shuffle(busy)
        for stream in busy:
            if self._queues[stream][0]():
                self._queues[stream].popleft()
                return True
        return False

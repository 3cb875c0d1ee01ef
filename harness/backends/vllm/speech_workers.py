"""Processes that compute features of sounds for vLLM, as their parent sees them.

In one process, such threads would wait for each other and for the thread that reads answers.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import numpy as np

from harness.child.piped_process import end_process, start_process
from harness.errors import HarnessError

_MOST = 8
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
_FIX = "see the log of this run: the process prints the cause before it ends, unless the system ended it"


def count_listeners(threads: int) -> int:
    """Half of the processors, since the engine needs some itself, and no more than a few GPUs can make use of."""
    return max(1, min(_MOST, (threads or len(os.sched_getaffinity(0))) // 2))


class SpeechWorkers:
    """Starts at once; ``wait`` before the first sound."""

    def __init__(self, count: int, arguments: Mapping[str, Any], prompt: Sequence[int]) -> None:
        self._all: list[_Listener] = []
        self._free: SimpleQueue[_Listener] = SimpleQueue()
        self._pool = ThreadPoolExecutor(count, "listener")
        self.forget()
        try:
            for number in range(count):
                self._all.append(_Listener())
                self._all[-1].start(f"listener{number}", dict(arguments), tuple(prompt))
        except BaseException:
            self.close()
            raise

    def wait(self) -> None:
        """Wait until all are ready. Raises HarnessError where one cannot be."""
        for each in self._all:
            each.answer()
            self._free.put(each)

    def forget(self) -> None:
        """Spec fields of a harness command: the ``harness`` group."""
        self._busy, self._rendered, self._began, self._span = 0.0, 0, 0.0, 0.0

    async def render(self, sound: np.ndarray) -> Any:
        """Compute what the engine takes in the place of ``sound``. Raises HarnessError where a process ended or
        failed."""
        self._began = self._began or time.monotonic()
        rendered, busy = await asyncio.get_running_loop().run_in_executor(self._pool, self._ask, sound)
        self._busy, self._rendered, self._span = self._busy + busy, self._rendered + 1, time.monotonic() - self._began
        return rendered

    def describe(self) -> dict[str, float]:
        """Counters since ``forget``. ``hearing_seconds``: processor time of the workers; ``hearing_span``: seconds from
        the arrival of the first sound to the end of the last one's features."""
        return {
            "listeners": len(self._all),
            "sounds_heard": self._rendered,
            "hearing_seconds": round(self._busy, 3),
            "hearing_span": round(self._span, 3),
        }

    def close(self) -> None:
        """Close; work under way is lost."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for each in self._all:
            each.end()
        self._pool.shutdown()
        for each in self._all:
            each.pipe.close()

    def _ask(self, sound: np.ndarray) -> Any:
        listener = self._free.get()
        try:
            return listener.hear(sound)
        finally:
            self._free.put(listener)


class _Listener:
    def __init__(self) -> None:
        self.pipe, self._process = start_process("harness.backends.vllm.speech_worker", _ONE_THREAD)

    def start(self, *said: Any) -> None:
        with suppress(OSError):  # it has ended: the thread that waits for its answer must know
            self.pipe.send(said)

    def hear(self, sound: np.ndarray) -> Any:
        with suppress(OSError):
            self.pipe.send_bytes(np.ascontiguousarray(sound, np.float32).data)
        return self.answer()

    def answer(self) -> Any:
        try:
            problem, found = self.pipe.recv()
        except (EOFError, OSError) as error:
            raise HarnessError(
                f"a process that computes features of sounds {self._report_end()}", "backend", _FIX
            ) from error
        if problem:
            raise HarnessError(f"vLLM cannot compute the features of a sound: {problem}", "backend", _FIX)
        return found

    def end(self) -> None:
        end_process(self._process, 0)

    def _report_end(self) -> str:
        code = self._process.wait()
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"

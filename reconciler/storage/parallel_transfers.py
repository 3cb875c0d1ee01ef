"""Run transfers at the same time, in threads that the process does not wait for, because a server may never answer."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import suppress
from typing import TypeVar

_Item = TypeVar("_Item")
_Ended = TypeVar("_Ended")
_BEAT = 0.2  # seconds between two checks of the progress
_LAST_BYTES = 5.0  # seconds that transfers under way have to end after a stop


class TransferStoppedError(Exception):
    """A transfer that is no longer wanted."""


def run_transfers(
    items: Iterable[_Item],
    transfer: Callable[[_Item], _Ended],
    stopped: threading.Event,
    *,
    parallel: int,
    check: Callable[[int], None] = lambda _: None,
) -> list[_Ended]:
    """Run ``transfer`` for each item, and return the results in order. The first exception, from a transfer or from
    ``check``, stops the others at their next bytes. ``check`` is called with the number of ended transfers while others
    run. ``stopped``: once it is set, running transfers must raise TransferStoppedError, as this function then does."""
    waiting = deque((item, Future[_Ended]()) for item in items)
    futures = [future for _, future in waiting]

    def work() -> None:
        while waiting and not stopped.is_set():
            with suppress(IndexError):  # another thread took the last
                item, future = waiting.popleft()
                try:
                    future.set_result(transfer(item))
                except BaseException as error:
                    future.set_exception(error)

    for _ in range(min(parallel, len(futures))):
        threading.Thread(target=work, daemon=True).start()
    try:
        while True:
            done, left = wait(futures, timeout=_BEAT, return_when=FIRST_EXCEPTION)
            if not left or stopped.is_set() or any(future.exception() is not None for future in done):
                break
            check(len(done))
    finally:
        if not all(future.done() for future in futures):
            stopped.set()
            for _, future in list(waiting):
                future.cancel()
            wait(futures, timeout=_LAST_BYTES)
    for future in futures:
        error = future.exception() if future.done() and not future.cancelled() else None
        if error is not None and not isinstance(error, TransferStoppedError):
            raise error
    if stopped.is_set():
        raise TransferStoppedError
    return [future.result() for future in futures]

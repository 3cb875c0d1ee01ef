"""Several downloads at once, within a bound, that end on request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import TypeVar

from reconciler.fetch.download import DownloadProgress, DownloadStoppedError

_Item = TypeVar("_Item")
_Ended = TypeVar("_Ended")
_BEAT = 0.2  # seconds between two looks whether all has ended
_LAST_BYTES = 5.0  # seconds in which what is under way ends, once it was stopped


def fetch_all(
    items: Sequence[_Item], one: Callable[[_Item], _Ended], progress: DownloadProgress, *, parallel: int
) -> list[_Ended]:
    """Run ``one`` for each item, and give the results in their order. Raises the first of its exceptions, once all have
    ended."""
    futures: list[Future[_Ended]] = [Future() for _ in items]
    waiting = list(zip(items, futures, strict=True))[::-1]
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                if not waiting:
                    return
                item, future = waiting.pop()
            try:
                if progress.stopped.is_set():
                    raise DownloadStoppedError
                future.set_result(one(item))
            except BaseException as error:
                future.set_exception(error)

    # Not a pool: the end of the process does not wait for its threads.
    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(parallel, len(items)))]
    for thread in threads:
        thread.start()
    try:
        while wait(futures, timeout=_BEAT).not_done:
            pass
    except BaseException:
        progress.stopped.set()
        began = time.monotonic()
        while any(thread.is_alive() for thread in threads) and time.monotonic() - began < _LAST_BYTES:
            time.sleep(_BEAT)
        raise
    return [future.result() for future in futures]

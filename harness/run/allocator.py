"""How the C library deals with memory that is given back to it.

Loops that prepare a sample as they answer it make arrays of some MB and drop them. glibc gives such memory back to the
system at once, and takes it anew for the next sample, page by page: of pointpainting a fifth of the time, and more
where others use the machine, so that its slowest queries measured the system rather than the network.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as malloc.h numbers them for mallopt(3)
_KEPT = 1 << 30  # bytes that may be free at the end of an arena
_LARGEST = 32 << 20  # bytes of an allocation; glibc takes no more


def keep_freed_memory() -> None:
    """Have glibc keep what is freed, for the next sample; other C libraries stay as they are.

    For a process that ends with its run: it does not grow, but it does not shrink either.
    """
    with suppress(AttributeError, OSError, TypeError):
        set_option = ctypes.CDLL(None).mallopt
        set_option(_MMAP_THRESHOLD, _LARGEST)
        set_option(_TRIM_THRESHOLD, _KEPT)

"""The batch sizes that are computed: a batch is padded up to the next of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from harness.contract import Scenario

_STEPS = 16  # of a Server batch's range: a partial batch is padded by a sixteenth of the largest at most
_PER_QUERY = 8  # samples of a MultiStream query


def list_sizes(largest: int, scenario: Scenario, only: Sequence[int] = ()) -> tuple[int, ...]:
    """Ascending, the last one ``largest``. ``only``: all that the engine computes; empty for any size."""
    if only:
        allowed = tuple(size for size in sorted(only) if size <= largest)
        return allowed or (min(only),)
    powers = [2**power for power in range(largest.bit_length()) if 2**power <= largest]
    if scenario == "Server":
        step = -(-largest // _STEPS)
        return tuple(sorted({*(size for size in powers if size < step), *range(step, largest, step), largest}))
    if scenario == "Offline":  # the last batch only is smaller
        return tuple(sorted({*powers, largest}))
    return tuple(sorted({1, min(_PER_QUERY, largest), largest}))


def find_padded_size(count: int, allowed: Sequence[int]) -> int:
    """The smallest that holds ``count``."""
    return allowed[bisect_left(allowed, count)]

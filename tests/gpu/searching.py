"""Find and confirm the highest sustained rate."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.gpu.parts import Figures

CEILING, FLOOR = 1.05, 0.1
_ROUNDING = 1e-9  # of shares that are added up


def find_highest(
    serve: Callable[[float, float], Figures],
    whole: float,
    *,
    seconds: float,
    confirming: float,
    first: float = 0.92,
    step: float = 0.03,
    resolution: float = 0.012,
) -> Figures:
    """Find the highest VALID rate of Server. ``serve``: run at a rate for a number of seconds, and return figures
    including "verdict". ``whole``: Offline samples/s, of which ``first``, ``step`` and ``resolution`` are fractions.

    Starting from ``first``, steps double until one share holds and one does not, then halve down to ``resolution``.
    Afterwards a run of ``confirming`` seconds confirms the share, which is reduced until one does; it is omitted if the
    runs before it took as long.
    """
    tried: list[Figures] = []
    known: dict[float, bool] = {}  # share → whether a run that is long enough sustained it

    def holds(share: float, lasting: float = seconds) -> bool:
        tried.append(serve(share * whole, lasting))
        print(json.dumps(tried[-1]), flush=True)
        valid = bool(tried[-1]["verdict"] == "VALID")
        if lasting >= confirming:
            known[share] = valid
        return valid

    def confirms(share: float) -> bool:
        return known[share] if share in known else holds(share, confirming)

    low, high = _bracket(holds, first, step)
    while low and high - low > resolution + _ROUNDING:
        share = (low + high) / 2
        low, high = (share, high) if holds(share) else (low, share)
    while low > FLOOR and not confirms(low):
        low -= resolution
    share = low if low > FLOOR else 0.0
    return {"highest_valid_qps": round(share * whole, 3), "over_offline": round(share, 4), "tried": tried}


def _bracket(holds: Callable[[float], bool], share: float, step: float) -> tuple[float, float]:
    """Return a share that holds and a higher one that does not."""
    if holds(share):
        while share + step < CEILING and holds(share + step):
            share, step = share + step, 2 * step
        return share, min(share + step, CEILING)
    while share > FLOOR:
        lower = max(share - step, share / 2)
        if holds(lower):
            return lower, share
        share, step = lower, 2 * step
    return 0.0, share

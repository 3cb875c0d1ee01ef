"""Search the best of several candidates, such as batch sizes, queue delays or streams. Pure, like ``search``.

In Server, each candidate has its own capacity, and a full search of each would take most of a day. So only the first is
searched fully; every other one must be VALID at a rate above the best so far, so a single trial can dismiss it. If the
result is a measured number (a latency, a throughput), each candidate is run once, and those within the noise of the
best are repeated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from reconciler.tune.search import CONFIRMATIONS, TOLERANCE, FoundRate, Next, NotFound, RateTrial, decide, find_bracket

REPEATS = 4  # maximum runs of a candidate
_ASSUMED = 0.02  # relative spread between runs until one is repeated
_APART = 2.0  # standard deviations of a difference


class Ask(Struct, frozen=True):
    """The next trial: the candidate, the rate (None if there is no rate), and the reason."""

    candidate: int
    rate: float | None
    why: str


class BestRate(Struct, frozen=True):
    candidate: int
    found: FoundRate


class BestMetric(Struct, frozen=True):
    """``mean`` of ``runs``; ``spread``: relative standard deviation of one run."""

    candidate: int
    mean: float
    spread: float
    runs: int


def decide_rates(
    trials: Sequence[Sequence[RateTrial]],
    start: float,
    *,
    tolerance: float = TOLERANCE,
    confirmations: int = CONFIRMATIONS,
) -> Ask | BestRate | NotFound:
    """Choose from the ``trials`` of each candidate; each candidate is compared with the best of those before it."""
    best: BestRate | None = None
    for index, own in enumerate(trials):
        first = start if best is None else best.found.rate * (1 + tolerance)
        if best is not None and _is_beaten(own, first, tolerance):
            continue
        decision = decide(own, first, tolerance=tolerance, confirmations=confirmations)
        match decision:
            case Next(rate=rate, why=why):
                challenge = best is not None and not own
                return Ask(index, rate, "may beat the best so far" if challenge else why)
            case FoundRate() if best is None or decision.rate > best.found.rate:
                best = BestRate(index, decision)
    return best or NotFound("no rate of any candidate was VALID")


def _is_beaten(trials: Sequence[RateTrial], challenge: float, tolerance: float) -> bool:
    tried = any(trial.rate <= challenge * (1 + tolerance) for trial in trials)
    low = find_bracket(trials).low if trials else None
    return tried and (low is None or low < challenge / (1 + tolerance))


def decide_metrics(measured: Sequence[Sequence[float]], *, lower_is_better: bool) -> Ask | BestMetric:
    """Decide from ``measured``, the results of each candidate; an INVALID run counts as infinitely bad."""
    for index, results in enumerate(measured):
        if not results:
            return Ask(index, None, "not measured yet")
    spread = measure_spread(measured)
    ranked = sorted(range(len(measured)), key=lambda i: _average(measured[i]), reverse=not lower_is_better)
    best = ranked[0]
    close = [i for i in ranked if i == best or not _is_apart(measured[best], measured[i], spread)]
    open_ones = [i for i in close if len(measured[i]) < REPEATS and math.isfinite(_average(measured[i]))]
    if open_ones and (len(close) > 1 or len(measured[best]) < CONFIRMATIONS):
        index = min(open_ones, key=lambda i: len(measured[i]))
        again = "repeated to confirm it" if len(close) == 1 else "it is within the noise of the best"
        return Ask(index, None, again)
    return BestMetric(best, _average(measured[best]), spread, len(measured[best]))


def measure_spread(measured: Sequence[Sequence[float]]) -> float:
    """Return the relative standard deviation of one run, pooled over all repeated candidates."""
    squares, degrees = 0.0, 0
    for results in measured:
        finite = [value for value in results if math.isfinite(value)]
        if len(finite) > 1:
            mean = sum(finite) / len(finite)
            squares += sum((value / mean - 1) ** 2 for value in finite)
            degrees += len(finite) - 1
    return math.sqrt(squares / degrees) if degrees else _ASSUMED


def _is_apart(one: Sequence[float], other: Sequence[float], spread: float) -> bool:
    a, b = _average(one), _average(other)
    if not math.isfinite(b):
        return True
    return abs(a / b - 1) > _APART * spread * math.sqrt(1 / len(one) + 1 / len(other))


def _average(values: Sequence[float]) -> float:
    return sum(values) / len(values)

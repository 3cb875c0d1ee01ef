"""Searches the best of several candidates: batch sizes, queue delays, streams. Pure, like ``search``.

Of Server's candidates each has a capacity of its own, and a whole search of each would cost most of a day. So the first
is searched, and every other one has to be VALID at a rate that beats the best so far: one trial dismisses it. Where the
result is a number of its own (a latency, a throughput), each candidate is measured once, and those within the noise of
the best are measured again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from reconciler.tune.search import CONFIRMATIONS, TOLERANCE, FoundRate, Next, NotFound, RateTrial, decide, find_bracket

REPEATS = 4  # of a candidate at most
_ASSUMED = 0.02  # relative spread between runs, as long as none was repeated
_APART = 2.0  # standard deviations of a difference


class Ask(Struct, frozen=True):
    """The next trial: of which candidate, at which rate (None where there is no rate), and why."""

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
    """``trials`` of each candidate; every later one is compared with the best of those before it."""
    best: BestRate | None = None
    for index, own in enumerate(trials):
        first = start if best is None else best.found.rate * (1 + tolerance)
        if best is not None and _is_beaten(own, first, tolerance):
            continue
        decision = decide(own, first, tolerance=tolerance, confirmations=confirmations)
        match decision:
            case Next(rate=rate, why=why):
                challenge = best is not None and not own
                return Ask(index, rate, "would it beat the best so far?" if challenge else why)
            case FoundRate() if best is None or decision.rate > best.found.rate:
                best = BestRate(index, decision)
    return best or NotFound("no rate of any candidate was VALID")


def _is_beaten(trials: Sequence[RateTrial], challenge: float, tolerance: float) -> bool:
    tried = any(trial.rate <= challenge * (1 + tolerance) for trial in trials)
    low = find_bracket(trials).low if trials else None
    return tried and (low is None or low < challenge / (1 + tolerance))


def decide_metrics(
    measured: Sequence[Sequence[float]], *, lower_is_better: bool, repeats: int = REPEATS
) -> Ask | BestMetric:
    """``measured``: the results of each candidate; a run that was INVALID counts as infinitely bad."""
    for index, results in enumerate(measured):
        if not results:
            return Ask(index, None, "not measured yet")
    spread = measure_spread(measured)
    ranked = sorted(range(len(measured)), key=lambda i: _mean(measured[i]), reverse=not lower_is_better)
    best = ranked[0]
    close = [i for i in ranked if i == best or not _is_apart(measured[best], measured[i], spread)]
    open_ones = [i for i in close if len(measured[i]) < repeats and math.isfinite(_mean(measured[i]))]
    if open_ones and (len(close) > 1 or len(measured[best]) < CONFIRMATIONS):
        index = min(open_ones, key=lambda i: len(measured[i]))
        again = "once more, to confirm it" if len(close) == 1 else "it is within the noise of the best"
        return Ask(index, None, again)
    return BestMetric(best, _mean(measured[best]), spread, len(measured[best]))


def measure_spread(measured: Sequence[Sequence[float]]) -> float:
    """The relative standard deviation of one run, pooled over all candidates that were repeated."""
    squares, degrees = 0.0, 0
    for results in measured:
        finite = [value for value in results if math.isfinite(value)]
        if len(finite) > 1:
            mean = sum(finite) / len(finite)
            squares += sum((value / mean - 1) ** 2 for value in finite)
            degrees += len(finite) - 1
    return math.sqrt(squares / degrees) if degrees else _ASSUMED


def _is_apart(one: Sequence[float], other: Sequence[float], spread: float) -> bool:
    a, b = _mean(one), _mean(other)
    if not math.isfinite(b):
        return True
    return abs(a / b - 1) > _APART * spread * math.sqrt(1 / len(one) + 1 / len(other))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)

"""Searches the highest rate at which a run is VALID. Pure: from the trials so far follows the next rate, or the end.

Near its capacity a queue's latency grows like 1 / (capacity - rate), whatever the service: the inverse of the latency
percentile is nearly a straight line over the rate. Two trials on either side of the limit therefore show where it is
crossed, and the next trials are put just next to that place, one on each side, until they are close enough. Close to
the limit, the count of late queries says more: LoadGen's early stopping allows so many of them, and that is the rule
that the real run will have to keep.

Verdicts near the limit are noisy. The bracket is the cut among the rates that contradicts the fewest trials; it
need not be narrower than runs differ. What is found in the end is a rate that the noise leaves VALID, and that was run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Protocol

from msgspec import Struct

# How much runs differ though nothing was changed, where the limit is crossed, and how far below that asks to stay.

_NEAR = 0.06  # rates this far from the one found say something about the line through it
_STEEPEST = 1.2  # of a strain that still lies on that line
_NINETEEN_OF_TWENTY = 1.645  # standard deviations of a normal distribution
_UNSURE = 1.5  # and as much more of them per degree of freedom: nearly Student's distribution


class Strained(Protocol):
    @property
    def rate(self) -> float: ...
    @property
    def strain(self) -> float | None: ...


class Noise(Struct, frozen=True):
    """``spread``: standard deviation of the strain between runs, over ``degrees`` of freedom (0: unknown).
    ``crossing``: the rate at which the line through the trials meets the limit, ``slope``: how the strain grows there
    per query per second; None where there is no such line."""

    spread: float = 0.0
    degrees: int = 0
    crossing: float | None = None
    slope: float | None = None

    @property
    def of_rate(self) -> float | None:
        """The same spread as a part of the rate; None while it is unknown."""
        if not self.degrees or self.slope is None or self.crossing is None:
            return None
        return self.spread / self.slope / self.crossing

    def lower(self, rate: float) -> float:
        """``rate``, or less where the noise asks for it: there 19 of 20 runs stay within the limit."""
        spread = self.of_rate
        if spread is None or self.crossing is None:
            return rate
        aside = _NINETEEN_OF_TWENTY * (1 + _UNSURE / self.degrees) * spread
        return min(rate, self.crossing * (1 - min(aside, _NEAR)))


def measure_noise(trials: Sequence[Strained], rate: float) -> Noise:
    """From repeats of the same rate, and from how far trials near ``rate`` are off a straight line."""
    near = sorted(
        (t.rate, t.strain)
        for t in trials
        if t.strain is not None and abs(t.rate / rate - 1) <= _NEAR and abs(t.strain) <= _STEEPEST
    )
    if len(near) < 2:
        return Noise()
    line = _fit(near)
    if line is None:
        squares, degrees = _pool(near)
        return Noise(math.sqrt(squares / degrees) if degrees else 0.0, degrees)
    slope, level = line
    degrees = len(near) - 2
    squares = sum((strain - level - slope * at) ** 2 for at, strain in near)
    return Noise(math.sqrt(squares / degrees) if degrees else 0.0, degrees, _bound(-level / slope, near), slope)


def _bound(crossing: float, near: Sequence[tuple[float, float]]) -> float:
    """A line says nothing of rates far from those that it was drawn through."""
    lowest, highest = near[0][0], near[-1][0]
    return min(max(crossing, lowest * (1 - _NEAR)), highest * (1 + _NEAR))


def _pool(points: Sequence[tuple[float, float]]) -> tuple[float, int]:
    """The squared deviations within each rate, and their degrees of freedom."""
    squares, degrees = 0.0, 0
    for _, group in groupby(points, key=lambda point: point[0]):
        found = [strain for _, strain in group]
        mean = sum(found) / len(found)
        squares += sum((strain - mean) ** 2 for strain in found)
        degrees += len(found) - 1
    return squares, degrees


def _fit(points: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """(slope, level) of the line of least squares; None unless it rises."""
    count = len(points)
    mean_rate, mean_strain = sum(at for at, _ in points) / count, sum(strain for _, strain in points) / count
    across = sum((at - mean_rate) ** 2 for at, _ in points)
    if not across:
        return None
    slope = sum((at - mean_rate) * (strain - mean_strain) for at, strain in points) / across
    return (slope, mean_strain - slope * mean_rate) if slope > 0 else None


TOLERANCE = 0.01
CONFIRMATIONS = 2
_MOST = 40  # trials; a machine whose verdicts are not settled by then has another problem than its rate
_SATURATED = 0.98  # of the rate: completions below it fall behind
_FASTER = ((0.1, 4.0), (0.5, 2.0), (0.8, 1.25), (math.inf, 1.08))  # pressure below → factor, while nothing was INVALID
_SLOWER = ((1.2, 0.95), (3.0, 0.8), (math.inf, 0.6))  # likewise while nothing was VALID
_PATIENCE = 6  # steps of one size, before they grow
_EDGE = 0.1  # of a bracket: an interpolated rate keeps this far from its ends while the bracket is wide
_STRAIGHT = 2.5  # of a strain: farther from the limit, late queries are too rare or too many to say anything
_LEAST = 0.001
_WIDEST = 2.0  # times the tolerance: a bracket is narrowed to it whatever the noise
_KNOWN = 2  # degrees of freedom from which on the noise is believed
_NEXT = 1.1  # times the highest VALID rate: a line through those below says nothing of what is farther
_ROOM = 1.5  # limit per latency that a rate should have left and did not, for its failure to be doubted
_SHORTER = 0.25  # a bracket that three trials did not shorten to this is halved instead


class RateTrial(Struct, frozen=True):
    """One run at ``rate``. ``valid``: LoadGen says so, and the rate was kept. ``pressure``: its worst latency
    percentile as a part of its limit, 1 at the limit. ``completed``: the rate at which it was answered. ``over`` of
    ``queries`` were late, ``allowed``: as many may be by early stopping; -1 where that is not known."""

    rate: float
    valid: bool
    pressure: float | None = None
    completed: float | None = None
    queries: int = 0
    over: int = -1
    allowed: int = -1

    @property
    def strain(self) -> float | None:
        """0 at the limit, negative below: the logarithm of late queries per allowed one, else of the pressure."""
        if self.allowed > 0 and self.over >= 0:
            return math.log(self.over / self.allowed) if self.over else None
        return math.log(self.pressure) if self.pressure and math.isfinite(self.pressure) else None


class Bracket(Struct, frozen=True):
    """``low``: the highest rate that counts as VALID, ``high``: the lowest that does not; None where there is none."""

    low: float | None
    high: float | None

    @property
    def width(self) -> float:
        if self.low is None or self.high is None:
            return math.inf
        return self.high / self.low - 1


class Next(Struct, frozen=True):
    """The rate of the next trial, and why."""

    rate: float
    why: str


class FoundRate(Struct, frozen=True):
    """``rate`` was VALID, and most runs at it should be, by the noise seen. ``capacity``: the estimate of where half
    of them are. ``above``: the lowest rate that was not VALID, None where none was tried. ``why`` no more trials are
    made; ``settled``: because none is needed."""

    rate: float
    capacity: float
    above: float | None
    noise: Noise
    why: str
    settled: bool


class NotFound(Struct, frozen=True):
    """No rate was VALID."""

    why: str


Decision = Next | FoundRate | NotFound


def decide(
    trials: Sequence[RateTrial],
    start: float,
    *,
    tolerance: float = TOLERANCE,
    confirmations: int = CONFIRMATIONS,
    most: int = _MOST,
) -> Decision:
    """``start``: the rate to begin at. ``tolerance``: how much higher an INVALID rate may be than the VALID one found.
    ``confirmations``: VALID runs at the rate found. ``most``: trials in all."""
    if not trials:
        return Next(start, "the rate to begin at")
    bracket = find_bracket(trials)
    if len(trials) >= most:
        return conclude(trials, f"{most} trials were made")
    if bracket.low is None:
        return _step_down(trials)
    if bracket.high is None:
        return _step_up(trials, bracket.low)
    if _is_outlier(trials, bracket.low, bracket.high):
        return Next(bracket.high, "not VALID where the rates below it leave room: once more")
    noise = measure_noise(trials, bracket.low)
    known = (noise.of_rate or 0.0) if noise.degrees >= _KNOWN else 0.0
    if bracket.width > max(tolerance, min(known, _WIDEST * tolerance)):
        return Next(_cross(trials, bracket.low, bracket.high, tolerance), "between a VALID and an INVALID rate")
    rate = _choose(trials, bracket.low, noise, tolerance)
    unsure = 0 if noise.degrees >= _KNOWN else _count_contradictions(trials)
    if not _is_proven(trials, rate, confirmations + unsure):
        return Next(rate, "to confirm it")
    return _found(trials, rate, bracket, "")


def conclude(trials: Sequence[RateTrial], why: str) -> FoundRate | NotFound:
    """Conclude what the trials prove, complete or not. ``why`` they end."""
    bracket = find_bracket(trials)
    if bracket.low is None:
        return NotFound(why or "no rate was VALID")
    target = measure_noise(trials, bracket.low).lower(bracket.low)
    valid = [trial.rate for trial in trials if trial.valid and trial.rate <= bracket.low]
    return _found(trials, max((rate for rate in valid if rate <= target), default=min(valid)), bracket, why)


def _found(trials: Sequence[RateTrial], rate: float, bracket: Bracket, why: str) -> FoundRate:
    low, high = bracket.low or rate, bracket.high
    noise = measure_noise(trials, low)
    capacity = math.sqrt(low * (high or low))
    if noise.crossing is not None and noise.degrees >= 1:
        capacity = noise.crossing
    return FoundRate(rate, capacity, high, noise, why or "the rate is found", not why)


def _choose(trials: Sequence[RateTrial], low: float, noise: Noise, tolerance: float) -> float:
    """The rate to end with: one that was VALID and is about as low as the noise asks, else that rate itself."""
    target = noise.lower(low)
    near = (1 - tolerance) * target, (1 + tolerance / 2) * target
    tried = [trial.rate for trial in trials if trial.valid and near[0] <= trial.rate <= min(near[1], low)]
    return max(tried, default=target)


def find_bracket(trials: Sequence[RateTrial]) -> Bracket:
    """The cut among the rates that contradicts the fewest trials, the lowest of several: INVALID below it and VALID
    above it are contradictions."""
    rates = sorted({trial.rate for trial in trials})
    valid = {rate: sum(t.valid for t in trials if t.rate == rate) for rate in rates}
    invalid = {rate: sum(not t.valid for t in trials if t.rate == rate) for rate in rates}
    wrong = sum(valid.values())  # nothing counts as VALID
    best, cut = wrong, 0
    for index, rate in enumerate(rates, 1):
        wrong += invalid[rate] - valid[rate]
        if wrong < best:
            best, cut = wrong, index
    low = next((rate for rate in reversed(rates[:cut]) if valid[rate]), None)
    high = next((rate for rate in rates[cut:] if invalid[rate]), None)
    return Bracket(low, high)


def _count_contradictions(trials: Sequence[RateTrial]) -> int:
    """Trials that were not VALID at a rate at which, or above which, another one was."""
    highest = max((trial.rate for trial in trials if trial.valid), default=0.0)
    return sum(not trial.valid and trial.rate <= highest for trial in trials)


def _is_proven(trials: Sequence[RateTrial], rate: float, confirmations: int) -> bool:
    """VALID itself; and so many more trials were VALID there or above than were not there or below."""
    at = any(trial.valid and trial.rate == rate for trial in trials)
    for_it = sum(trial.valid and trial.rate >= rate for trial in trials)
    against = sum(not trial.valid and trial.rate <= rate for trial in trials)
    return at and for_it - against >= confirmations


def _step_up(trials: Sequence[RateTrial], low: float) -> Next:
    pressure = max((t.pressure for t in trials if t.rate == low and t.pressure is not None), default=0.1)
    factor = next(factor for below, factor in _FASTER if pressure < below)
    return Next(low * factor**2 ** (len(trials) // _PATIENCE), "nothing was INVALID yet")


def _step_down(trials: Sequence[RateTrial]) -> Next:
    lowest = min(trials, key=lambda trial: trial.rate)
    if lowest.completed and lowest.completed < _SATURATED * lowest.rate:
        return Next(0.95 * lowest.completed, "just below what was completed")
    factor = next(factor for below, factor in _SLOWER if (lowest.pressure or math.inf) <= below)
    return Next(lowest.rate * factor ** max(1, len(trials) - 2), "nothing was VALID yet")


def _cross(trials: Sequence[RateTrial], low: float, high: float, tolerance: float) -> float:
    """Find where the limit is crossed, a little to the side that leaves the shorter bracket."""
    middle = math.sqrt(low * high)
    ends = _read_ends(trials, low, high)
    if ends is None or _drags(trials, low, high):
        return middle
    crossing = low + (high - low) * ends[0] / (ends[0] + ends[1])
    aside = 0.4 * tolerance * crossing
    crossing += -aside if crossing - low > high - crossing else aside
    edge = min(_EDGE * (high - low), aside)
    return min(max(crossing, low + edge), high - edge)


def _read_ends(trials: Sequence[RateTrial], low: float, high: float) -> tuple[float, float] | None:
    """How far both ends of a bracket are from the limit, on one scale that is nearly straight."""
    strains = _mean(t.strain for t in trials if t.rate == low), _mean(t.strain for t in trials if t.rate == high)
    if strains[0] is not None and strains[1] is not None and max(-strains[0], strains[1]) < _STRAIGHT:
        return max(-strains[0], _LEAST), max(strains[1], _LEAST)
    eases = [_mean(1 / t.pressure for t in trials if t.rate == rate and t.pressure) for rate in (low, high)]
    if eases[0] is None or eases[1] is None:
        return None
    return max(eases[0] - 1, _LEAST), max(1 - eases[1], _LEAST)


def _is_outlier(trials: Sequence[RateTrial], low: float, high: float) -> bool:
    """True where the line through the two highest VALID rates has the limit well above ``high``, which failed there but
    once more often than not: something else may have disturbed that run. A rate that failed twice, there or just above,
    is believed."""
    below = sorted({t.rate for t in trials if t.valid and t.pressure and t.rate <= low}, reverse=True)[:2]
    failed = sum(-1 if t.valid else 1 for t in trials if high <= t.rate <= _NEXT * high)
    if len(below) < 2 or failed > 1 or high > _NEXT * low or high - low > below[0] - below[1]:
        return False
    eases = [_mean(1 / t.pressure for t in trials if t.rate == rate and t.valid and t.pressure) for rate in below]
    if eases[0] is None or eases[1] is None:
        return False
    slope = min((eases[0] - eases[1]) / (below[0] - below[1]), 0.0)
    return eases[0] + slope * (high - below[0]) > _ROOM


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _drags(trials: Sequence[RateTrial], low: float, high: float) -> bool:
    """True where the last trials moved but one end: then the line is no line, and the middle is safer."""
    if len(trials) < 5:
        return False
    before = find_bracket(trials[:-3])
    if before.low is None or before.high is None:
        return False
    return (high - low) > _SHORTER * (before.high - before.low)

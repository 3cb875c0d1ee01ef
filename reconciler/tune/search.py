"""Search the highest rate at which a run is VALID. Pure: the trials so far determine the next rate, or the end.

Near its capacity a queue's latency grows like 1 / (capacity - rate), whatever the service: the inverse of the latency
percentile is nearly linear in the rate. Two trials on either side of the limit therefore show where it is crossed, and
the next trials are placed just next to that point, one on each side, until they are close enough. Close to the limit,
the number of late queries is more informative: LoadGen's early stopping allows a certain number, and the real run must
satisfy the same rule.

Verdicts near the limit are noisy. The bracket is the split of the rates that contradicts the fewest trials; it need not
be narrower than the difference between runs. The rate found was run, and stays VALID within the noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from statistics import linear_regression

from msgspec import Struct

# Estimate the noise between identical runs, where the limit is crossed, and how far below it a rate must stay.

_NEAR = 0.06  # rates this close to the one found count for the line through it
_STEEPEST = 1.2  # largest strain at which that line is still valid
_NINETEEN_OF_TWENTY = 1.645  # standard deviations of a normal distribution
_UNSURE = 1.5  # relative increase per degree of freedom, close to Student's distribution


class Noise(Struct, frozen=True):
    """``spread``: standard deviation of the strain between runs, with ``degrees`` of freedom (0: unknown).
    ``crossing``: the rate at which the line through the trials meets the limit, ``slope``: the increase of the strain
    per query per second; None if there is no such line."""

    spread: float = 0.0
    degrees: int = 0
    crossing: float | None = None
    slope: float | None = None

    @property
    def of_rate(self) -> float | None:
        """Return the spread as a fraction of the rate; None while it is unknown."""
        if not self.degrees or self.slope is None or self.crossing is None:
            return None
        return self.spread / self.slope / self.crossing

    def lower(self, rate: float) -> float:
        """Return ``rate``, or a lower one at which 19 of 20 runs stay within the limit despite the noise."""
        spread = self.of_rate
        if spread is None or self.crossing is None:
            return rate
        aside = _NINETEEN_OF_TWENTY * (1 + _UNSURE / self.degrees) * spread
        return min(rate, self.crossing * (1 - min(aside, _NEAR)))


def measure_noise(trials: Sequence[RateTrial], rate: float) -> Noise:
    """Measure the noise from repeats of the same rate, and from the distances of trials near ``rate`` to a straight
    line."""
    known = ((trial.rate, trial.strain) for trial in trials if abs(trial.rate / rate - 1) <= _NEAR)
    near = sorted((at, strain) for at, strain in known if strain is not None and abs(strain) <= _STEEPEST)
    if len(near) < 2:
        return Noise()
    line = _fit(near)
    if line is None:
        squares, degrees = _pool(near)
        return Noise(math.sqrt(squares / degrees) if degrees else 0.0, degrees)
    slope, level = line
    degrees = len(near) - 2
    squares = sum((strain - level - slope * at) ** 2 for at, strain in near)
    # A line says nothing about rates far from those that it was fitted to.
    crossing = min(max(-level / slope, near[0][0] * (1 - _NEAR)), near[-1][0] * (1 + _NEAR))
    return Noise(math.sqrt(squares / degrees) if degrees else 0.0, degrees, crossing, slope)


def _pool(points: Sequence[tuple[float, float]]) -> tuple[float, int]:
    """Return the sum of squared deviations within each rate, and their degrees of freedom."""
    squares, degrees = 0.0, 0
    for _, group in groupby(points, key=lambda point: point[0]):
        found = [strain for _, strain in group]
        mean = sum(found) / len(found)
        squares += sum((strain - mean) ** 2 for strain in found)
        degrees += len(found) - 1
    return squares, degrees


def _fit(points: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """Return (slope, level) of the least-squares line; None unless it rises."""
    rates, strains = zip(*points, strict=True)
    if len(set(rates)) < 2:
        return None
    slope, level = linear_regression(rates, strains)
    return (slope, level) if slope > 0 else None


TOLERANCE = 0.01
CONFIRMATIONS = 2
_MOST = 40  # trials; if verdicts have not settled by then, the rate is not the machine's problem
_SATURATED = 0.98  # fraction of the rate; a run that completes less falls behind
_FASTER = ((0.1, 4.0), (0.5, 2.0), (0.8, 1.25), (math.inf, 1.08))  # pressure below → factor, while no trial was INVALID
_SLOWER = ((1.2, 0.95), (3.0, 0.8), (math.inf, 0.6))  # likewise while no trial was VALID
_PATIENCE = 6  # steps of one size before they grow
_EDGE = 0.1  # of a bracket: minimum distance of an interpolated rate from the ends of a wide bracket
_STRAIGHT = 2.5  # of a strain: farther from the limit, late queries are too few or too many to be informative
_LEAST = 0.001
_WIDEST = 2.0  # times the tolerance: a bracket is narrowed at least to this, whatever the noise
_KNOWN = 2  # degrees of freedom from which the noise is trusted
_NEXT = 1.1  # times the highest VALID rate: farthest extrapolation of a line through lower rates
_ROOM = 1.5  # if a failed rate should have had this ratio of limit to latency, its failure is doubted
_SHORTER = 0.25  # a bracket that three trials did not shrink to this fraction is halved instead


class RateTrial(Struct, frozen=True):
    """One run at ``rate``. ``valid``: LoadGen reports VALID, and the rate was sustained. ``pressure``: ratio of its
    worst latency percentile to the limit. ``completed``: the rate of its answers. ``over`` of ``queries`` were late,
    and early stopping allows ``allowed``; -1 if that is not known."""

    rate: float
    valid: bool
    pressure: float | None = None
    completed: float | None = None
    queries: int = 0
    over: int = -1
    allowed: int = -1

    @property
    def strain(self) -> float | None:
        """Return the log of late queries per allowed one, else of the pressure: 0 at the limit, negative below it."""
        if self.allowed > 0 and self.over >= 0:
            return math.log(self.over / self.allowed) if self.over else None
        return math.log(self.pressure) if self.pressure and math.isfinite(self.pressure) else None


class Bracket(Struct, frozen=True):
    """``low``: the highest rate that counts as VALID, ``high``: the lowest that does not; None if there is none."""

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
    """``rate`` was VALID, and most runs at it should be, given the noise. ``capacity``: the estimated rate at which
    half of the runs are. ``above``: the lowest rate that was not VALID, None if there is none. ``why`` the search
    ended; ``settled``: because no trial is needed."""

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
    """Decide what comes next. ``start``: the first rate. ``tolerance``: maximum relative distance from the VALID rate
    found to an INVALID one. ``confirmations``: VALID runs required at the rate found. ``most``: maximum number of
    trials."""
    if not trials:
        return Next(start, "the initial rate")
    bracket = find_bracket(trials)
    if len(trials) >= most:
        return conclude(trials, f"{most} trials were made")
    if bracket.low is None:
        return _step_down(trials)
    if bracket.high is None:
        return _step_up(trials, bracket.low)
    if _is_outlier(trials, bracket.low, bracket.high):
        return Next(bracket.high, "unexpectedly not VALID: repeated")
    noise = measure_noise(trials, bracket.low)
    known = (noise.of_rate or 0.0) if noise.degrees >= _KNOWN else 0.0
    if bracket.width > max(tolerance, min(known, _WIDEST * tolerance)):
        return Next(_cross(trials, bracket.low, bracket.high, tolerance), "between a VALID and an INVALID rate")
    rate = _choose(trials, bracket.low, noise, tolerance)
    unsure = 0 if noise.degrees >= _KNOWN else _count_contradictions(trials)
    if not _is_proven(trials, rate, confirmations + unsure):
        return Next(rate, "to confirm it")
    return _make_found(trials, rate, bracket, "")


def conclude(trials: Sequence[RateTrial], why: str) -> FoundRate | NotFound:
    """Conclude from the trials, complete or not. ``why``: the reason that they ended."""
    bracket = find_bracket(trials)
    if bracket.low is None:
        return NotFound(why or "no rate was VALID")
    target = measure_noise(trials, bracket.low).lower(bracket.low)
    valid = [trial.rate for trial in trials if trial.valid and trial.rate <= bracket.low]
    return _make_found(trials, max((rate for rate in valid if rate <= target), default=min(valid)), bracket, why)


def _make_found(trials: Sequence[RateTrial], rate: float, bracket: Bracket, why: str) -> FoundRate:
    low, high = bracket.low or rate, bracket.high
    noise = measure_noise(trials, low)
    capacity = math.sqrt(low * (high or low))
    if noise.crossing is not None and noise.degrees >= 1:
        capacity = noise.crossing
    return FoundRate(rate, capacity, high, noise, why or "the rate is found", not why)


def _choose(trials: Sequence[RateTrial], low: float, noise: Noise, tolerance: float) -> float:
    """Return the final rate: a VALID one about as low as the noise requires, else that rate itself."""
    target = noise.lower(low)
    near = (1 - tolerance) * target, (1 + tolerance / 2) * target
    tried = [trial.rate for trial in trials if trial.valid and near[0] <= trial.rate <= min(near[1], low)]
    return max(tried, default=target)


def find_bracket(trials: Sequence[RateTrial]) -> Bracket:
    """Return the split of the rates that contradicts the fewest trials, the lowest of several: INVALID trials below it
    and VALID ones above it are contradictions."""
    rates = sorted({trial.rate for trial in trials})
    valid = {rate: sum(t.valid for t in trials if t.rate == rate) for rate in rates}
    invalid = {rate: sum(not t.valid for t in trials if t.rate == rate) for rate in rates}
    wrong = sum(valid.values())  # no rate counts as VALID
    best, cut = wrong, 0
    for index, rate in enumerate(rates, 1):
        wrong += invalid[rate] - valid[rate]
        if wrong < best:
            best, cut = wrong, index
    low = next((rate for rate in reversed(rates[:cut]) if valid[rate]), None)
    high = next((rate for rate in rates[cut:] if invalid[rate]), None)
    return Bracket(low, high)


def _count_contradictions(trials: Sequence[RateTrial]) -> int:
    """Count the trials that were not VALID at a rate while another one was, there or above."""
    highest = max((trial.rate for trial in trials if trial.valid), default=0.0)
    return sum(not trial.valid and trial.rate <= highest for trial in trials)


def _is_proven(trials: Sequence[RateTrial], rate: float, confirmations: int) -> bool:
    """Return True if the rate was VALID, and enough more trials there or above were VALID than trials there or below
    were not."""
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
        return Next(0.95 * lowest.completed, "just below the completed rate")
    factor = next(factor for below, factor in _SLOWER if (lowest.pressure or math.inf) <= below)
    return Next(lowest.rate * factor ** max(1, len(trials) - 2), "nothing was VALID yet")


def _cross(trials: Sequence[RateTrial], low: float, high: float, tolerance: float) -> float:
    """Return the rate at which the limit is crossed, shifted slightly to the side that leaves the shorter bracket."""
    middle = math.sqrt(low * high)
    ends = _read_ends(trials, low, high)
    if ends is None or _is_dragging(trials, low, high):
        return middle
    crossing = low + (high - low) * ends[0] / (ends[0] + ends[1])
    aside = 0.4 * tolerance * crossing
    crossing += -aside if crossing - low > high - crossing else aside
    edge = min(_EDGE * (high - low), aside)
    return min(max(crossing, low + edge), high - edge)


def _read_ends(trials: Sequence[RateTrial], low: float, high: float) -> tuple[float, float] | None:
    """Return the distances of both ends of a bracket from the limit, on one nearly linear scale."""
    below, above = (_average(t.strain for t in trials if t.rate == rate) for rate in (low, high))
    if below is not None and above is not None and max(-below, above) < _STRAIGHT:
        return max(-below, _LEAST), max(above, _LEAST)
    eases = [_average(1 / t.pressure for t in trials if t.rate == rate and t.pressure) for rate in (low, high)]
    if eases[0] is None or eases[1] is None:
        return None
    return max(eases[0] - 1, _LEAST), max(1 - eases[1], _LEAST)


def _is_outlier(trials: Sequence[RateTrial], low: float, high: float) -> bool:
    """Return True if the line through the two highest VALID rates reaches the limit well above ``high``, which failed
    only once more than it passed: that run may have been disturbed. A rate that failed twice, there or just above, is
    accepted as failed."""
    below = sorted({t.rate for t in trials if t.valid and t.pressure and t.rate <= low}, reverse=True)[:2]
    failed = sum(-1 if t.valid else 1 for t in trials if high <= t.rate <= _NEXT * high)
    if len(below) < 2 or failed > 1 or high > _NEXT * low or high - low > below[0] - below[1]:
        return False
    eases = [_average(1 / t.pressure for t in trials if t.rate == rate and t.valid and t.pressure) for rate in below]
    if eases[0] is None or eases[1] is None:
        return False
    slope = min((eases[0] - eases[1]) / (below[0] - below[1]), 0.0)
    return eases[0] + slope * (high - below[0]) > _ROOM


def _average(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _is_dragging(trials: Sequence[RateTrial], low: float, high: float) -> bool:
    """Return True if the last trials moved only one end, so that the line does not fit and halving is safer."""
    if len(trials) < 5:
        return False
    before = find_bracket(trials[:-3])
    if before.low is None or before.high is None:
        return False
    return (high - low) > _SHORTER * (before.high - before.low)

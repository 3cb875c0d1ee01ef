"""How much runs differ though nothing was changed, where the limit is crossed, and how far below that asks to stay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Protocol

from msgspec import Struct

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

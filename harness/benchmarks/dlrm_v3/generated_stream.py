"""A small stream in the reference's file format, made without PyTorch.

Timestamp by timestamp, what a user likes is predicted from the user and from the user's earlier ratings.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.dlrm_v3.histories import (
    FOLDER,
    LIKED,
    LINES,
    OFFSETS,
    REQUEST_OFFSETS,
    REQUESTS,
    TIMESTAMPS,
    TRAINED,
    USER_COUNTS,
)
from harness.errors import HarnessError

_COMES = 0.7  # probability that a user is active at a timestamp
_INFERRED = TIMESTAMPS - TRAINED
_CATEGORIES_OF_A_USER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """``items`` and ``categories``: how many there are; ``candidates``: number per request; ``seen``: mean number of
    items that a user sees at a timestamp."""

    items: int
    categories: int
    candidates: int
    seen: int

    @property
    def in_category(self) -> int:
        return self.items // self.categories


@dataclass(slots=True)
class GeneratedUser:
    """``fields``: the fields of the user's line; ``seen`` and ``ratings``: everything so far."""

    number: int
    categories: NDArray[np.int64]
    fields: list[str] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    ratings: list[float] = field(default_factory=list)

    def write(self, *step: Sequence[float]) -> None:
        """Write the candidates, how they are liked, the items seen, and how those were rated."""
        self.fields += [",".join(map(str, values)) for values in step]

    def remember(self, seen: Sequence[int], ratings: Sequence[float]) -> None:
        self.seen += seen
        self.ratings += ratings


Foresee = Callable[[GeneratedUser, NDArray[np.int64]], NDArray[Any]]
"""Returns how much a user will like each of some items; values above 0 mean liked."""


class GeneratedStream:
    def __init__(self, rng: np.random.Generator, extent: Extent, count: int) -> None:
        """``count``: number of requests at the timestamps of inference."""
        if count < _INFERRED:
            fix = f"use at least {_INFERRED}, one per timestamp"
            raise HarnessError(f"{count} samples are not enough", "input", fix)
        self._rng, self._extent, self._count = rng, extent, count
        self.users = [
            GeneratedUser(number, rng.choice(extent.categories, _CATEGORIES_OF_A_USER, replace=False))
            for number in range(math.ceil(count / _INFERRED / _COMES))
        ]

    def train(self) -> list[list[int]]:
        """Generate the stream until inference begins; return the active users of each timestamp."""
        came = [self._train(timestamp) for timestamp in range(-1, TRAINED)][1:]
        for user in self.users:
            user.write(*self._make_step(user))  # the step for evaluation, from which nothing is learned
        return came

    def infer(self, foresee: Foresee, asked: Callable[[], None]) -> list[list[int]]:
        """Generate inference; return the requesting users of each timestamp. ``asked`` is called for each request."""
        shares = [self._count // _INFERRED + (number < self._count % _INFERRED) for number in range(_INFERRED)]
        requests = [sorted(self._rng.choice(len(self.users), share, replace=False).tolist()) for share in shares]
        for asking in requests:
            for user in self.users:
                if user.number in asking:
                    self._ask(user, foresee)
                    asked()
                else:
                    user.write((), (), (), ())
        return requests

    def draw_items(self, user: GeneratedUser) -> NDArray[np.int64]:
        """Draw as many items as can be shown, from the user's categories."""
        count, inside = self._extent.candidates, self._extent.in_category
        found: NDArray[np.int64] = self._rng.choice(user.categories, count) * inside
        return found + self._rng.integers(0, inside, count)

    def _train(self, timestamp: int) -> list[int]:
        """Generate a timestamp, at which some users are active; before the first one, all are. Return the
        active ones."""
        came = []
        for user in self.users:
            if timestamp < 0 or self._rng.random() < _COMES:
                shown, likes, seen, ratings = self._make_step(user)
                user.write(shown, likes, seen, ratings)
                user.remember(seen, ratings)
                came.append(user.number)
            else:
                user.write((), (), (), ())
        return came

    def _make_step(self, user: GeneratedUser) -> tuple[list[Any], ...]:
        seen = self.draw_items(user)[: int(self._rng.integers(1, 2 * self._extent.seen))].tolist()
        ratings = (self._rng.integers(4, 21, len(seen)) / 4).tolist()
        return seen[:1], ratings[:1], seen, ratings

    def _ask(self, user: GeneratedUser, foresee: Foresee) -> None:
        shown, rng = self.draw_items(user), self._rng
        liked, least = foresee(user, shown) > 0, int(4 * LIKED)
        likes = np.where(liked, rng.integers(least, 21, len(shown)), rng.integers(4, least, len(shown))) / 4
        chosen = rng.choice(len(shown), int(rng.integers(1, min(2 * self._extent.seen, len(shown)))), replace=False)
        seen, ratings = shown[chosen].tolist(), likes[chosen].tolist()
        user.write(shown.tolist(), likes.tolist(), seen, ratings)
        user.remember(seen, ratings)


def write_stream(data: Path, users: Sequence[GeneratedUser], requests: Sequence[Sequence[int]]) -> None:
    folder = data / FOLDER
    folder.mkdir()
    offsets = _write_lines(folder / LINES, [user.fields for user in users])
    _write_lines(folder / OFFSETS, [[_join(offsets)]])
    places = _write_lines(folder / REQUESTS, [[_join(asking)] for asking in requests])
    _write_lines(folder / REQUEST_OFFSETS, [[_join(places)]])
    _write_lines(folder / USER_COUNTS, [[_join([len(asking)])] for asking in requests])


def _join(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _write_lines(path: Path, lines: Sequence[Sequence[str]]) -> list[int]:
    """Write the lines; return where each one starts."""
    offsets = []
    with path.open("w", encoding="ascii", newline="") as stream:
        writer = csv.writer(stream)
        for line in lines:
            offsets.append(stream.tell())
            writer.writerow(line)
    return offsets

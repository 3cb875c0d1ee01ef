"""The keys of a detail log in their order. Most of a round's thousands of logs have the same few orders: what is
looked for in one is found once for all logs that have it."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from msgspec import Struct, field

_LONGEST = 4096  # rows of logs whose order is remembered; most have hundreds
Placed = tuple[tuple[str, int], ...]  # keys, and the row of each


class KeyOrder(Struct, frozen=True):
    """``first``: where the first row of each key is, in the order of the log. ``others``: the rows of keys that rows
    before them have."""

    first: dict[str, int]
    others: Placed
    _chosen: dict[re.Pattern[str], Placed] = field(default_factory=dict)
    _grouped: dict[Callable[[str], tuple[int, ...]], tuple[tuple[str, int, tuple[int, ...]], ...]] = field(
        default_factory=dict
    )
    _pairs: dict[tuple[str, str], tuple[tuple[str, int, str, int], ...]] = field(default_factory=dict)

    def choose(self, shape: re.Pattern[str]) -> Placed:
        """The first row of each key that is of a shape."""
        if shape not in self._chosen:
            self._chosen[shape] = tuple((key, at) for key, at in self.first.items() if shape.fullmatch(key))
        return self._chosen[shape]

    def group(self, find: Callable[[str], tuple[int, ...]]) -> tuple[tuple[str, int, tuple[int, ...]], ...]:
        """The first row of each key for which something is found, with that."""
        if find not in self._grouped:
            found = ((key, at, find(key)) for key, at in self.first.items())
            self._grouped[find] = tuple(item for item in found if item[2])
        return self._grouped[find]

    def pair(self, beginning: str, other: str) -> tuple[tuple[str, int, str, int], ...]:
        """Keys that begin so, each with the one that begins with ``other`` instead, and their first rows."""
        if (beginning, other) not in self._pairs:
            twins = ((key, at, other + key.removeprefix(beginning)) for key, at in self.first.items())
            self._pairs[beginning, other] = tuple(
                (key, at, twin, self.first[twin])
                for key, at, twin in twins
                if key.startswith(beginning) and twin in self.first
            )
        return self._pairs[beginning, other]


def order_keys(keys: tuple[str | None, ...]) -> KeyOrder:
    """Order the key of each row, None for a row without one."""
    return _order_lately(keys) if len(keys) <= _LONGEST else _order(keys)


def _order(keys: tuple[str | None, ...]) -> KeyOrder:
    first: dict[str, int] = {}
    others = []
    for at, key in enumerate(keys):
        if key is not None and first.setdefault(key, at) != at:
            others.append((key, at))
    return KeyOrder(first, tuple(others))


_order_lately = functools.lru_cache(maxsize=128)(_order)

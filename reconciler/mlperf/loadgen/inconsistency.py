"""What a check of a detail log yields, and how checks read values: numbers that are none count as absent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal

from msgspec import Struct

from reconciler.errors import LogError
from reconciler.mlperf.loadgen.log import DetailLog
from reconciler.mlperf.loadgen.log_line import LogLine
from reconciler.quantities import is_whole, show_count

CLOCK = Decimal("0.02")  # seconds by which LoadGen's two clocks, and their resolution, may differ
ENDING = Decimal(2)  # seconds from the last answer to the end of the run
DRIFT = Decimal("0.01")  # of a duration: more is an ERROR of LoadGen's
SECOND = 1_000_000_000  # in nanoseconds


class Inconsistency(Struct, frozen=True):
    """``stated`` by the line ``line`` of ``key``; ``derived`` from what the line ``other`` says, 0 for several.
    ``dated``: it compares dates, which the machine's clock tells, with what no clock that is set can change."""

    key: str
    stated: str
    derived: str
    line: int
    other: int = 0
    dated: bool = False

    def __str__(self) -> str:
        where = f" (line {self.other})" if self.other else ""
        return f"{self.key}: {self.stated} (line {self.line}), but {self.derived}{where}"


Check = Callable[[DetailLog], Iterator[Inconsistency]]


def elapsed_seconds(log: DetailLog) -> Decimal | None:
    try:
        began, ended = log.started, log.ended
    except LogError:
        return None
    return None if began is None or ended is None else Decimal(str((ended - began).total_seconds()))


def read_number(log: DetailLog, key: str) -> Decimal | None:
    value = log.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    number = Decimal(value)
    return number if number.is_finite() else None


def read_integer(log: DetailLog, key: str) -> int | None:
    value = log.get(key)
    return value if is_whole(value) else None


def show_value(entry: LogLine) -> str:
    """In one short line; of a list of samples how long it is."""
    value = entry.read()
    if isinstance(value, list):
        return f"a list of {show_count(len(value), 'value')}"
    if value is None:
        return "what is not JSON" if entry.raw else "null"
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."

"""Result of a detail log check. When checks read values, non-numeric values count as absent."""

from __future__ import annotations

from decimal import Decimal

from msgspec import Struct

from reconciler.errors import LogError
from reconciler.loadgen import keys
from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.log_line import LogLine
from reconciler.resource.quantities import is_whole, show_count

CLOCK = Decimal("0.02")  # seconds by which LoadGen's two clocks may differ, including their resolution
ENDING = Decimal(2)  # maximum seconds between dates that LoadGen took from one clock; a larger difference is reported
DRIFT = Decimal("0.01")  # share of a duration; LoadGen logs an ERROR above it
SECOND = 1_000_000_000  # in nanoseconds
_CENTURY = 100 * 365 * 86400 * SECOND


LOADGEN = ("LoadGen",)  # the source of the rules for a log: LoadGen's code, which the rules' docstrings name
CLOCK_KEPT = "the clock of the machine was not set during the run"  # the premise of a doubt


class Inconsistency(Struct, frozen=True):
    """Contradiction between ``stated`` in line ``line`` of ``key`` and ``derived`` from line ``other``, 0 for several
    lines. ``rule``: id of the rule that found it. ``premise``: an external condition that the log does not show, which
    makes the finding a doubt rather than an error; "" if LoadGen's own code makes the contradiction impossible."""

    key: str
    stated: str
    derived: str
    line: int
    other: int = 0
    premise: str = ""
    rule: str = ""

    def __str__(self) -> str:
        where = f" (line {self.other})" if self.other else ""
        return f"{self.key}: {self.stated} (line {self.line}), but {self.derived}{where}"


def contradict(log: DetailLog, key: str, stated: str, derived: str, source: str = "") -> Inconsistency:
    """Report that the first line of ``key`` contradicts ``source``, another key."""
    return Inconsistency(key, stated, derived, log.find_line_number(key), log.find_line_number(source) if source else 0)


def read_run_seconds(log: DetailLog) -> Decimal | None:
    """Return the run time by LoadGen's own clock; None if the log's dates do not show it.

    power_end is power_begin plus the time from the start to the last completion, by the clock that measures latencies
    (``IssueQueries``, loadgen.cc:555 at v5.1.1, since v0.7). The logger also counts milliseconds of that clock, so
    setting the clock changes all of them equally. LoadGen did not write dates that do not match the logger.
    """
    elapsed, counted = read_elapsed_seconds(log), log.index.ended_at
    if elapsed is None or elapsed < 0 or (counted is not None and elapsed > counted / 1000 + ENDING):
        return None
    return elapsed


def read_longest_seconds(log: DetailLog) -> Decimal | None:
    """Return an upper bound of the run time; without dates in the log, the time since the logger started."""
    seconds, counted = read_run_seconds(log), log.index.ended_at
    return seconds if seconds is not None or counted is None else counted / 1000


def is_wrapped(log: DetailLog, mean: Decimal) -> bool:
    """Return True if a mean comes from a negative sum, which a clock that was set back produces. LoadGen divides the
    sum by an unsigned count (``ProcessLatencies``, results.cc:32 at v5.1.1), so the latencies seem to total centuries.
    """
    return mean * (read_number(log, keys.RESULT_QUERY_COUNT) or 0) > _CENTURY


def read_elapsed_seconds(log: DetailLog) -> Decimal | None:
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
    """Show a value in one short line; for a list of samples, only its length."""
    value = entry.read()
    if isinstance(value, list):
        return f"a list of {show_count(len(value), 'value')}"
    if value is None:
        return "what is not JSON" if entry.raw else "null"
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."

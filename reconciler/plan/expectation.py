"""Predict how long a step takes: from its history, else by the formula of the run's harness, else from a similar step.
Pure.

A formula needs a declared rate or latency. A round's default is the same for every machine and may be wrong by a factor
of hundreds, so with a default only the minimum duration is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from reconciler.desired.state import Desired
from reconciler.resource.kinds import ACCURACY, Address, Kind
from reconciler.resource.records import Ended, Recorded, Summary
from reconciler.resource.settings import CellSettings

if TYPE_CHECKING:
    from reconciler.desired.detail import Detail

Formula = Callable[[CellSettings, Mapping[str, object]], float | None]
START = 2.0  # seconds until the child process of a run has loaded its libraries, measured with short runs
_LONG = 60.0  # seconds; for longer runs a changed target predicts better than an earlier run
_PACED = "Server"  # LoadGen sends queries at the configured rate
_RUNS = (Kind.RUN, Kind.COMPLIANCE_TEST)
# Kinds that take about equally long in every scenario of a benchmark on a system, such as accuracy runs.
_ALIKE = (Kind.ENGINE, Kind.SCORE)
_Likeness = tuple[str, str, str]


class Expectation:
    """``formula``: computes the seconds of a run from its settings and identity inputs; None if only history can."""

    def __init__(self, desired: Desired, recorded: Recorded, formula: Formula) -> None:
        self._desired, self._recorded, self._formula = desired, recorded, formula

    def predict(self, address: Address) -> tuple[float | None, str]:
        """Return the seconds and their basis: "history", "formula" or "alike"; (None, "") without a basis."""
        known = [s for s in self._recorded.by_address.get(address, ()) if _was_measured(s)]
        key = self._desired.by_address[address].key
        if same := [summary for summary in known if summary.key == key]:
            return same[-1].seconds, "history"
        if address.kind in _RUNS:
            detail = self._desired.detail(address)
            seconds = predict_first(detail, self._formula)
            if seconds is not None and (not known or seconds >= _LONG):
                return seconds, "formula"
        if known:
            return known[-1].seconds, "history"
        alike = self._alike.get(_describe(address)) if _has_alike(address) else None
        return (alike, "alike") if alike is not None else (None, "")

    @cached_property
    def _alike(self) -> dict[_Likeness, float]:
        """Times of similar steps. Computed only if a step has no other prediction, since this reads all records."""
        found: dict[_Likeness, float] = {}
        for address, summaries in self._recorded.by_address.items():
            if _has_alike(address) and (last := next((s for s in reversed(summaries) if _was_measured(s)), None)):
                found[_describe(address)] = last.seconds
        return found


def predict_first(detail: Detail, formula: Formula) -> float | None:
    """Predict a run without history."""
    from reconciler.loadgen.settings import TARGETS, name_loadgen_scenario, read_min_duration

    values = detail.collect_values()
    seconds = formula(detail.settings, values)
    declared = any(item.name in TARGETS and item.origin.line for item in detail.inputs)
    if seconds is not None and not declared and name_loadgen_scenario(str(values["scenario"])) != _PACED:
        seconds = read_min_duration(values) / 1000 or None
    return seconds + START if seconds is not None and seconds < _LONG else seconds


def _was_measured(summary: Summary) -> bool:
    return summary.ended is Ended.DONE and summary.seconds > 0


def _has_alike(address: Address) -> bool:
    return address.kind in _ALIKE or address.mode == ACCURACY


def _describe(address: Address) -> _Likeness:
    cell = address.cell
    return (address.label, cell.system, cell.benchmark) if cell is not None else (address.label, "", address.name)

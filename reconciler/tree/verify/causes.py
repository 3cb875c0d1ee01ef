"""Why a user.conf says something else than the log beside it: the likely mechanism, from what the tree shows."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation

from msgspec import Struct

from reconciler.quantities import parse_decimal
from reconciler.tree.reading.values import number
from reconciler.tree.reading.view import CellView, RunView
from reconciler.tree.verify.settings import ConfSetting

# Audit runs of widespread submission code are started at these parts of the published Server target.
_AUDIT_FACTORS = (Decimal("0.92"), Decimal("0.96"))
_NEAR = Decimal("0.0005")
_KEYS = {
    "target_qps": "effective_target_qps",
    "min_duration": "effective_min_duration_ms",
    "min_query_count": "requested_min_query_count",
    "max_query_count": "effective_max_query_count",
    "max_duration": "effective_max_duration_ms",
}
_STREAMS = {
    "SingleStream": "requested_single_stream_expected_latency_ns",
    "MultiStream": "requested_multi_stream_expected_latency_ns",
    "Server": "effective_target_latency_ns",
}


# What sizes a run and is not what is measured: the expected rate of Offline, the expected latencies of the streams.
_ESTIMATES = {("Offline", "target_qps"), ("SingleStream", "target_latency"), ("MultiStream", "target_latency")}
ESTIMATE, OTHER_CELL, SEVERAL = "conf-estimate", "conf-of-other-cell", "conf-of-several"


class ConfCause(Struct, frozen=True):
    """``text``: one clause, "" where nothing fits. ``mechanism``: the id of the cause it is counted under."""

    text: str = ""
    mechanism: str = "conf-of-another-run"


def find_cause(view: CellView, name: str, setting: ConfSetting, logged: str) -> ConfCause:
    cause = _find_cause(view, name, setting, logged)
    run = view.performance
    return ConfCause(cause.text, ESTIMATE) if run and (run.log.scenario, name) in _ESTIMATES else cause


def _find_cause(view: CellView, name: str, setting: ConfSetting, logged: str) -> ConfCause:
    wanted = parse_decimal(setting.value)
    if wanted is None:
        return ConfCause()
    same, accuracy = _same_run(view, name, wanted)
    factor = _factor(name, wanted, parse_decimal(logged))
    if factor and not accuracy:
        return ConfCause(f"{same}, {factor}", "conf-of-audit-run") if same else ConfCause(factor)
    if same:
        return ConfCause(same, "conf-of-accuracy-run" if accuracy else "conf-of-audit-run")
    short = _short_run(view, name, wanted)
    return ConfCause(short, "conf-of-quick-test") if short else ConfCause()


def is_rounded(text: str, value: object, logged: str) -> bool:
    """Whether a conf's value is the logged one with fewer digits: ``text`` as written shows to which digit."""
    written, asked, exact = parse_decimal(text), parse_decimal(value), parse_decimal(logged)
    if written is None or not written or asked is None or exact is None:
        return False
    unit = asked / written  # of a conf in milliseconds, nanoseconds
    try:
        return (exact / unit).quantize(written, ROUND_HALF_EVEN) == written
    except (InvalidOperation, ZeroDivisionError):
        return False


def _same_run(view: CellView, name: str, wanted: Decimal) -> tuple[str, bool]:
    """The run of this cell that was started with the conf's value, so that it may have been the last to write the file;
    whether it is the accuracy run."""
    runs: list[tuple[str, RunView | None]] = [*view.test_views.items(), ("the accuracy run", view.accuracy)]
    for title, run in runs:
        if run is None:
            continue
        key = _KEYS.get(name) or _STREAMS.get(run.log.scenario, "")
        found = number(run.log, key)
        if found is not None and _equal(found, wanted):
            return f"the setting of {title} ({run.log.file}:{run.log.number(key)})", run is view.accuracy
    return "", False


def _factor(name: str, wanted: Decimal, logged: Decimal | None) -> str:
    if name != "target_qps" or not logged:
        return ""
    ratio = wanted / logged
    near = next((f for f in _AUDIT_FACTORS if abs(ratio - f) <= _NEAR), None)
    return f"{near} of the published target, as audit runs are often started" if near is not None else ""


def _short_run(view: CellView, name: str, wanted: Decimal) -> str:
    if name == "min_duration":
        rules = view.rules
        least = rules.value("least_min_duration", view.cell.scenario) if rules else None
        if isinstance(least, int) and wanted < least:
            return "a quick test's duration"
    if name == "min_query_count" and wanted <= 1:
        return "a quick test's query count"
    return ""


def _equal(one: Decimal, two: Decimal) -> bool:
    return abs(one - two) <= abs(two) * Decimal("0.000005")

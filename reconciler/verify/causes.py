"""Find likely causes in the tree for differences between a user.conf and its log."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation

from msgspec import Struct

from reconciler.loadgen import keys
from reconciler.loadgen.settings import PERFORMANCE, find_setting, find_target
from reconciler.loadgen.user_conf import ConfValue
from reconciler.resource.quantities import parse_decimal
from reconciler.tree.reading.values import read_number
from reconciler.tree.reading.view import CellView, RunView
from reconciler.verify.settings import ConfSetting

# Fractions of the published Server target at which widely used submission code starts audit runs.
_AUDIT_FACTORS = (Decimal("0.92"), Decimal("0.96"))
_NEAR = Decimal("0.0005")
_COUNTS = frozenset({keys.MIN_QUERY_COUNT, keys.PERFORMANCE_SAMPLE_COUNT})  # counts of a dataset's samples

# Settings that only determine a run's size: Offline's expected rate and the streams' expected latencies.
_ESTIMATES = {(of, target.name) for of in ("Offline", *keys.STREAMS) if (target := find_target(of))}
ESTIMATE, OTHER_CELL, SEVERAL = "conf-estimate", "conf-of-other-cell", "conf-of-several"
# Some submission code collects the settings of all runs of a result in its user.conf. This caused 55 findings in v2.1.
SAID_TWICE = "conf-said-twice"


class ConfCause(Struct, frozen=True):
    """The cause of a difference. ``text``: a clause, "" if no cause fits; ``mechanism``: the id of the cause under
    which the difference is counted."""

    text: str = ""
    mechanism: str = "conf-of-another-run"


def find_cause(view: CellView, name: str, setting: ConfSetting, logged: str) -> ConfCause:
    cause = _find_cause(view, name, setting, logged)
    if cause.mechanism == SAID_TWICE:
        return cause
    run = view.performance
    return ConfCause(cause.text, ESTIMATE) if run and (run.log.scenario, name) in _ESTIMATES else cause


def _find_cause(view: CellView, name: str, setting: ConfSetting, logged: str) -> ConfCause:
    wanted = parse_decimal(setting.value)
    if wanted is None:
        return ConfCause()
    if earlier := _find_earlier(view, setting, logged):
        return ConfCause(
            f"line {earlier} has the logged value: does the file collect the settings of several runs?", SAID_TWICE
        )
    same, accuracy = _find_equal_run(view, name, wanted)
    factor = _explain_factor(name, wanted, parse_decimal(logged))
    if factor and not accuracy:
        return ConfCause(f"{same}, {factor}", "conf-of-audit-run") if same else ConfCause(factor)
    if same:
        return ConfCause(same, "conf-of-accuracy-run" if accuracy else "conf-of-audit-run")
    short = _explain_short_run(view, name, wanted)
    return ConfCause(short, "conf-of-quick-test") if short else ConfCause()


def is_rounded(text: str, value: object, logged: str) -> bool:
    """Return True if a conf's value is the logged one rounded to fewer digits. ``text``: the value as written, which
    shows its digits."""
    written, asked, exact = parse_decimal(text), parse_decimal(value), parse_decimal(logged)
    if written is None or not written or asked is None or exact is None:
        return False
    unit = asked / written  # nanoseconds, for a conf in milliseconds
    try:
        return (exact / unit).quantize(written, ROUND_HALF_EVEN) == written
    except (InvalidOperation, ZeroDivisionError):
        return False


def is_of_accuracy_set(view: CellView, name: str, value: object) -> bool:
    """Return True for the sample count of the accuracy run, if the round has a separate dataset for it, since a
    result's single user.conf cannot contain both counts."""
    if view.rules is None or name not in _COUNTS:
        return False
    answered, whole = (
        view.rules.get_value(each, view.cell.scenario) for each in ("exact_accuracy_sample_count", "dataset_size")
    )
    return answered is not None and answered != whole and parse_decimal(value) == answered


def _find_earlier(view: CellView, setting: ConfSetting, logged: str) -> int:
    """Return an earlier line that sets the same name to the logged value, or 0. Only sorted files count, since they
    suggest a program that collects the settings of several runs."""
    written, asked, ran = parse_decimal(setting.line.text), parse_decimal(setting.value), parse_decimal(logged)
    if not written or asked is None or ran is None or setting.line.before is None or not _is_sorted(view):
        return 0
    for line in _list_earlier(setting.line):
        stated = parse_decimal(line.text)
        if stated is not None and _are_close(stated * (asked / written), ran):
            return line.line
    return 0


def _is_sorted(view: CellView) -> bool:
    conf = view.files.user_conf.value
    lines = [line for last in conf.values.values() for line in (last, *_list_earlier(last))] if conf else []
    texts = [f"{line.name} = {line.text}" for line in sorted(lines, key=lambda line: line.line)]
    return texts == sorted(texts)


def _list_earlier(line: ConfValue) -> Iterator[ConfValue]:
    earlier = line.before
    while earlier is not None:
        yield earlier
        earlier = earlier.before


def _find_equal_run(view: CellView, name: str, wanted: Decimal) -> tuple[str, bool]:
    """Find a run of this cell with the conf's value, which may have been the last to write the file. Also return
    whether it is the accuracy run."""
    runs: list[tuple[str, RunView | None]] = [
        *((name, run) for name, run in view.test_views.items() if not view.is_foreign(name)),
        ("the accuracy run", view.accuracy),
    ]
    for title, run in runs:
        if run is None:
            continue
        declared = find_setting(name, run.log.scenario)
        if declared is None or declared.modes != (PERFORMANCE,):
            continue
        key = declared.key
        found = read_number(run.log, key)
        if found is not None and _are_close(found, wanted):
            return f"the setting of {title} ({run.log.file}:{run.log.find_line_number(key)})", run is view.accuracy
    return "", False


def _explain_factor(name: str, wanted: Decimal, logged: Decimal | None) -> str:
    if name != keys.TARGET_QPS or not logged:
        return ""
    ratio = wanted / logged
    near = next((f for f in _AUDIT_FACTORS if abs(ratio - f) <= _NEAR), None)
    return f"{near} of the published target, a usual setting of audit runs" if near is not None else ""


def _explain_short_run(view: CellView, name: str, wanted: Decimal) -> str:
    if name == keys.MIN_DURATION:
        rules = view.rules
        least = rules.get_value("least_min_duration", view.cell.scenario) if rules else None
        if isinstance(least, int) and wanted < least:
            return "a quick test's duration"
    if name == keys.MIN_QUERY_COUNT and wanted <= 1:
        return "a quick test's query count"
    return ""


def _are_close(one: Decimal, two: Decimal) -> bool:
    return abs(one - two) <= abs(two) * Decimal("0.000005")

"""Compare a run's request with LoadGen's log of it, and derive a spec's settings from a log. A contradiction fails the
run, whatever its result.

This detects ignored settings, unread conf files, a leftover audit.config and logs of other runs, because LoadGen logs
every setting it used.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.loadgen import keys
from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.settings import (
    ACCURACY,
    LOADGEN_MODE,
    PERFORMANCE,
    SETTINGS,
    Setting,
    Unit,
    find_setting,
    find_settings,
    name_loadgen_scenario,
)
from reconciler.loadgen.user_conf import UserConf, parse_user_conf, read_conf_settings
from reconciler.resource.canonical import show_decimal


class Asked(Struct, frozen=True):
    """Settings with which a run was started. ``scenario`` may be Interactive; ``mode`` is "performance" or "accuracy".

    ``settings``: under spec names, as passed to ``user_conf.select_settings`` (audit overrides applied); ``seeds``:
    under LoadGen's names, empty if they do not matter; ``audit``: an audit.config was passed on purpose. ``audited``:
    its settings, under LoadGen's names. ``whole``: the request is complete, so every other setting must have LoadGen's
    default.
    """

    scenario: str
    mode: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeds: Mapping[str, int] = field(default_factory=dict)
    audit: bool = False
    audited: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = False


class Contradiction(Struct, frozen=True):
    """Contradiction with a detail log. ``line``: its 1-based line, 0 if the log states nothing. ``release``:
    LoadGen's, for a value that is built into it."""

    field: str
    asked: str
    logged: str
    line: int
    release: str = ""

    def __str__(self) -> str:
        where = f" (line {self.line})" if self.line else ""
        name = f"LoadGen {self.release}".rstrip()
        return f"{self.field}: expected {self.asked}, {name} logged {self.logged}{where}"


# Settings that appear in no spec and that only a compliance test may change. They select the samples to issue and the
# answers that a performance run logs. Excluded: accuracy_log_rng_seed (irrelevant unless answers are sampled),
# print_timestamps, coalesce_queries and max_async_queries (how queries are passed on), and values that LoadGen derives
# from other settings.
_UNASKED: Mapping[str, int] = {
    keys.ISSUE_UNIQUE: 0,
    keys.ISSUE_SAME: 0,
    keys.ISSUE_SAME_INDEX: 0,
    "accuracy_log_probability": 0,
    keys.SAMPLING_TARGET: 0,
}
# LoadGen logs these settings only if they are on.
_ABSENT_MEANS_OFF = frozenset({keys.REQUESTED_USE_TOKEN_LATENCIES})
# Releases before 6 do not log the accuracy count; it is then the size of the entire dataset.
_SUBSTITUTE = {keys.EFFECTIVE_ACCURACY_SAMPLE_COUNT: keys.QSL_REPORTED_TOTAL_COUNT}
# The first release that always logs them: if an older log omits them, they may still have been on.
_LOGGED_SINCE = {keys.EFFECTIVE_SAMPLE_CONCATENATE_PERMUTATION: 5}
_NOTHING = "nothing"


def find_contradictions(log: DetailLog, asked: Asked) -> tuple[Contradiction, ...]:
    """Return every difference between the request and the detail log, in a fixed order; empty if they agree."""
    return tuple(_list_contradictions(log, asked))


def _list_contradictions(log: DetailLog, asked: Asked) -> Iterator[Contradiction]:
    scenario = name_loadgen_scenario(asked.scenario)
    yield from _compare_text(log, "scenario", keys.EFFECTIVE_SCENARIO, scenario)
    yield from _compare_text(log, "mode", keys.EFFECTIVE_TEST_MODE, LOADGEN_MODE[asked.mode])
    for setting in find_settings(scenario):
        value = asked.settings.get(setting.name)
        if value is not None and not _is_longer_test(log, asked, setting):
            yield from _compare_setting(log, setting, value)
    for name, seed in asked.seeds.items():
        for item in _compare_text(log, name, f"effective_{name}", str(seed)):
            yield replace(item, release=log.version.partition(" ")[0])
    if asked.whole:
        yield from find_unasked(log, asked)
    if (log.audit is not None) != asked.audit:
        names = {True: "settings from an audit.config", False: "no audit.config"}
        line = log.audit.line if log.audit else 0
        yield Contradiction("audit", names[asked.audit], names[not asked.audit], line)
    if not log.complete:
        yield Contradiction("end", "a run that came to its end", "no result", log.length)


def _is_longer_test(log: DetailLog, asked: Asked, setting: Setting) -> bool:
    """Return True if a test issued more than its audit.config requests for one model: LoadGen reads such a line only if
    the harness passes the file itself, and by default only lines for all models."""
    logged = log.get(setting.key)
    audited = asked.audited.get(setting.name)
    return setting.name == keys.MIN_QUERY_COUNT and audited is not None and int(logged or 0) > int(audited)


def find_unasked(log: DetailLog, asked: Asked) -> Iterator[Contradiction]:
    """Find settings that were not requested and that affect what a run proves."""
    performance = asked.mode == PERFORMANCE
    if performance:  # an accuracy run issues every sample and logs every answer, regardless of these or a bound
        yield from find_unasked_issue(log, asked.audited)
    bounded = asked.audited.get(keys.ISSUE_UNIQUE)  # LoadGen then ends after one pass
    for name in (keys.MAX_DURATION, keys.MAX_QUERY_COUNT) if performance else ():
        setting = find_setting(name, asked.scenario)
        logged = log.find_line(setting.key) if setting is not None else None
        if logged is not None and logged.value != 0 and asked.settings.get(name) is None and not bounded:
            yield Contradiction(name, "no bound", str(logged.value), logged.line)
    used, total = log.find_line(keys.EFFECTIVE_ACCURACY_SAMPLE_COUNT), log.get(keys.QSL_REPORTED_TOTAL_COUNT)
    whole = asked.mode == ACCURACY and asked.settings.get(keys.ACCURACY_SAMPLE_COUNT) is None
    if whole and used is not None and total is not None and used.value != total:
        yield Contradiction(keys.ACCURACY_SAMPLE_COUNT, f"all {total} samples", str(used.value), used.line)


def find_unasked_issue(log: DetailLog, audited: Mapping[str, Any]) -> Iterator[Contradiction]:
    """Find settings by which LoadGen issued other samples, or logged more answers, than by default or audit.config."""
    for name, usual in _UNASKED.items():
        value = audited.get(name, usual)
        logged = log.find_line(f"effective_{name}")
        if logged is not None and not _is_same(Unit.RATE, int(value), logged.value):
            yield Contradiction(name, show_decimal(Decimal(int(value))), str(logged.value), logged.line)


def _compare_text(log: DetailLog, name: str, key: str, asked: str) -> Iterator[Contradiction]:
    logged = log.get(key, _NOTHING)
    if str(logged) != asked:
        yield Contradiction(name, asked, str(logged), log.find_line_number(key))


def _compare_setting(log: DetailLog, setting: Setting, value: Any) -> Iterator[Contradiction]:
    if setting.unit is Unit.OVERRIDE and value == 0:
        return
    key = setting.key if log.find_line_number(setting.key) else _SUBSTITUTE.get(setting.key, setting.key)
    logged = log.get(key)
    if logged is None:
        if not (key in _ABSENT_MEANS_OFF and not value) and not is_unlogged(log, key):
            yield Contradiction(setting.name, str(value), _NOTHING, 0)
        return
    if not _is_same(setting.unit, value, logged):
        yield Contradiction(setting.name, str(value), _show_logged(setting.unit, logged), log.find_line_number(key))


def is_unlogged(log: DetailLog, key: str) -> bool:
    """Return True if the log's LoadGen never prints a setting, so that its absence means nothing."""
    release = re.match(r"(\d{1,3})\.", log.version)
    return key not in log.index and release is not None and int(release[1]) < _LOGGED_SINCE.get(key, 0)


def _is_same(unit: Unit, asked: Any, logged: Any) -> bool:
    try:
        match unit:
            case Unit.FLAG:
                return bool(asked) == bool(logged)
            case Unit.RATE | Unit.MS:
                return round_to_six_digits(Decimal(asked)) == round_to_six_digits(Decimal(logged))
            case Unit.PERCENT:
                return round_to_six_digits(Decimal(asked)) == round_to_six_digits(Decimal(logged) * 100)
        return int(asked) == int(logged)
    except (TypeError, ValueError, ArithmeticError):
        return False


def _show_logged(unit: Unit, logged: Any) -> str:
    if isinstance(logged, bool) or not isinstance(logged, (int, Decimal)):
        return str(logged)
    return show_decimal(Decimal(logged) * (100 if unit is Unit.PERCENT else 1))


def round_to_six_digits(number: Decimal) -> str:
    """Round a number to six digits, as LoadGen logs a double."""
    return format(float(number), ".6g")


def find_conf_contradictions(
    data: bytes, log: DetailLog, model_key: str, scenario: str, overridden: Collection[str] = ()
) -> list[str]:
    """Find differences between a user.conf and a log. The result is empty if the log may come from a run with this
    conf. ``overridden``: settings of the run's audit.config, which LoadGen reads later."""
    conf = parse_user_conf(data)
    if conf.rejected:
        return ["LoadGen rejects the file"]
    names = {setting.name for setting in SETTINGS} - {*overridden}  # a conf states neither mode nor scenario
    found = find_contradictions(log, Asked(scenario, PERFORMANCE, read_conf_settings(conf, model_key, scenario), {}))
    return [str(item) for item in found if item.field in names]


def read_logged_settings(log: DetailLog, conf: UserConf | None = None, model_key: str = "*") -> dict[str, Any]:
    """Read the settings with which a spec requests exactly this log's run: times in ms, latencies in ns, rates as
    decimal text. LoadGen logs rates with six digits; if ``conf`` agrees, its digits are used."""
    scenario = log.scenario
    found: dict[str, Any] = {}
    stated = read_conf_settings(conf, model_key, scenario) if conf else {}
    for setting in find_settings(scenario):
        logged = log.get(setting.key) if PERFORMANCE in setting.modes else None
        if logged is None:
            continue
        rate, exact = setting.unit is Unit.RATE, stated.get(setting.name)
        found[setting.name] = show_decimal(Decimal(logged)) if rate else int(Decimal(logged))
        if rate and _is_same(Unit.RATE, exact, logged):
            found[setting.name] = exact
    # LoadGen uses zero to mean no bound.
    return {name: value for name, value in found.items() if value != 0 or name == keys.MIN_DURATION}

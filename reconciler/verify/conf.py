"""Compare user.conf with the log of the performance run with which it is published."""

from __future__ import annotations

import functools
from decimal import Decimal
from typing import Any

from reconciler.check.demands import OURS, Complaints
from reconciler.loadgen import keys
from reconciler.loadgen.compare import Asked, Contradiction, find_contradictions
from reconciler.loadgen.settings import PERFORMANCE, SETTINGS, TARGETS, Unit, find_target
from reconciler.loadgen.user_conf import UserConf
from reconciler.resource.quantities import parse_decimal, parse_number
from reconciler.resource.rules import Premise, question, rule
from reconciler.rules.rounds import list_rounds, load_ruleset, states_itself
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.values import find_at, read_number, show_value
from reconciler.tree.reading.view import CellView, RunView
from reconciler.verify.causes import SAID_TWICE, find_cause, is_of_accuracy_set, is_rounded
from reconciler.verify.premises import RELEASE_IS_KNOWN
from reconciler.verify.settings import FRACTIONS_SINCE, ConfReading, ConfSetting, list_model_keys, read_settings

# Settings for how LoadGen issues queries. No published value depends on them.
_INCIDENTAL = frozenset({"coalesce_queries", "max_async_queries"})
_ASSIGNED = b"="  # appears in each line that sets a value
_ORDERED_SINCE = 5  # first LoadGen release with a built-in configuration, which it reads before user.conf
_DOUBLES = frozenset(setting.name for setting in SETTINGS if setting.unit in (Unit.RATE, Unit.MS))
_AFTER_FIRST = 5  # digits that LoadGen prints of a double after the first one
# Bounds that end a run early; by default, LoadGen has none.
_BOUNDS = (keys.MAX_DURATION, keys.MAX_QUERY_COUNT)
_EVERYWHERE = tuple(
    setting
    for name in (keys.MIN_DURATION, keys.MIN_QUERY_COUNT, *_BOUNDS)
    for setting in SETTINGS
    if setting.name == name
)


def read_conf(view: CellView) -> ConfReading | None:
    """Read the file as LoadGen would for the published run; None if either is missing or rejected.

    If several model keys are possible, use the one with the fewest contradictions to the log, which the submitter
    evidently used.
    """
    return view.compute_once(_read_conf)


def _read_conf(view: CellView) -> ConfReading | None:
    conf, run = view.files.user_conf.value, view.performance
    if conf is None or run is None or conf.rejected or not run.log.scenario:
        return None
    right = view.find_rule("model_key")
    benchmark = view.cell.benchmark
    keys = list_model_keys(conf, str(right or view.official or benchmark), benchmark, is_known=view.rules is not None)
    readings = [_read_for_run(conf, key, run) for key in keys]
    if len(readings) == 1:
        return readings[0]
    is_meant = view.rules is not None  # the lines are for this benchmark, because its model key is known
    return min(readings, key=lambda reading: (is_meant and not reading.settings, len(_find_differences(run, reading))))


def _read_for_run(conf: UserConf, model: str, run: RunView) -> ConfReading:
    release = run.log.release if run.log.version else FRACTIONS_SINCE
    return read_settings(conf, model, run.log.scenario, release)


_WHY = ("submission rules: user.conf is the one of the run", OURS)


@rule(
    "user-conf.contradicts",
    "a user.conf that contradicts the log",
    sources=_WHY,
    cause="conf-of-another-run",
    premises=(
        RELEASE_IS_KNOWN,
        Premise("LoadGen reads this setting from this file and logs it with the same precision."),
    ),
    proof="the submitter's file and LoadGen's log each state a value, and the rules require them to be equal",
)
def verify_contradicting(view: CellView) -> Complaints:
    """LoadGen reads this file and logs the values that it used. Only the SUT's code can set a different value, which
    the rules forbid for a published user.conf. Values are compared as LoadGen rounds and logs them, under the model key
    that fits the log best. It is a question if both may be one value with different numbers of digits, if the setting
    affects only how queries are issued, if it is the sample count of the accuracy run's dataset, if this LoadGen does
    not log it, if the mlperf.conf of several results has the logged values and may have been read last, or if a sorted
    file sets the name several times, once to the logged value."""
    reading, run = read_conf(view), view.performance
    if reading is None or run is None:
        return
    replaced = _may_be_replaced(view, run, reading)
    for item in _find_differences(run, reading):
        setting = reading.settings[item.field]
        rounded = is_rounded(setting.line.text, setting.value, item.logged)
        cause = find_cause(view, item.field, setting, item.logged)
        doubt = _doubt_setting(view, item, setting, rounded=rounded)
        yield Complaint(
            Place(view.files.user_conf.file, setting.line.line),
            f"{item.field} {show_value(item.asked)} ({setting.line.name} = {setting.line.text})",
            f"{item.logged}, as in the log",
            cause="the value may be rounded" if rounded else cause.text,
            fix="publish the user.conf of this run",
            other=Place(run.log.file, item.line),
            mechanism="conf-detail" if doubt else cause.mechanism,
            doubt=doubt or (_TWICE if cause.mechanism == SAID_TWICE else ""),
            aspect=item.field,
            common=_READ_LAST if replaced else "",
        )


_READ_LAST = "the mlperf.conf in each folder has the logged value: the SUT may have read that file last"
_TWICE = "the file sets it several times, so a program may have collected the settings of several runs"


def _doubt_setting(view: CellView, item: Contradiction, setting: ConfSetting, *, rounded: bool) -> str:
    """Return why LoadGen may not have used exactly this value of this file; "" if it has."""
    if rounded:
        return "the file may have the logged value with fewer digits"
    if item.field in _INCIDENTAL:
        return "it only affects how queries are issued; no published value depends on it"
    if is_of_accuracy_set(view, item.field, setting.value):
        return "it is the size of the accuracy run's dataset, and all runs of a result share one user.conf"
    if not item.line:
        return "this LoadGen does not log the setting"
    asked, logged = parse_decimal(item.asked), parse_decimal(item.logged)
    last = Decimal(10) ** (logged.adjusted() - _AFTER_FIRST) if logged and item.field in _DOUBLES else Decimal(0)
    if asked is not None and logged is not None and abs(asked - logged) <= last:
        return "the values differ by one in the last digit that LoadGen prints"
    return ""


def _may_be_replaced(view: CellView, run: RunView, reading: ConfReading) -> bool:
    """Return True if the copy of mlperf.conf has all the logged values that differ, and nothing shows that it was read
    first. Before LoadGen release 5, the SUT reads both files in its own order. The log shows the order if it has
    user.conf's value of a setting that differs between the files."""
    copied = view.files.mlperf_conf.value
    if copied is None or copied.rejected or run.log.release >= _ORDERED_SINCE:
        return False
    built_in = _read_for_run(copied, reading.model, run)
    denied = {item.field for item in _find_differences(run, built_in)}
    replaced = {item.field for item in _find_differences(run, reading)}
    return replaced <= built_in.settings.keys() - denied and not (denied & reading.settings.keys()) - replaced


def _find_differences(run: RunView, reading: ConfReading) -> list[Contradiction]:
    asked = Asked(run.log.scenario, PERFORMANCE, reading.values())
    return [item for item in find_contradictions(run.log, asked) if item.field in reading.settings]


@question("user-conf.unexplained", "what set the values that user.conf does not?", sources=(OURS,))
def verify_unexplained(view: CellView) -> Complaints:
    """The log has a value that no conf sets and that is not LoadGen's default, so code may have set it. A question."""
    reading, run = read_conf(view), view.performance
    if reading is None or run is None:
        return
    conf = view.files.user_conf.value
    if run.inferred and conf is not None and conf.values and not reading.settings:
        return  # a gap: this file is for the folder's scenario, and the conf of the scenario that ran is elsewhere
    scenario = run.log.scenario
    target = find_target(scenario)
    for setting in (target, *_EVERYWHERE) if target else _EVERYWHERE:
        name, key = setting.name, setting.key
        logged, default = read_number(run.log, key), parse_number(_find_default(view, name, scenario))
        # A benchmark's code may require each sample at least once without a conf.
        usual = default, parse_number(view.find_rule("dataset_size")) if name == keys.MIN_QUERY_COUNT else None
        if name not in reading.settings and logged is not None and default is not None and logged not in usual:
            yield Complaint(
                Place(view.files.user_conf.file),
                f"no line sets {name}",
                f"{show_value(logged)} in the log; LoadGen's default is {show_value(default)}",
                cause="the SUT's code or another file set it, or the SUT passed another model's name to LoadGen",
                other=find_at(run.log, key),
            )


def _find_default(view: CellView, name: str, scenario: str) -> Any:
    """Return the default from the tree's copy of mlperf.conf, or from the round if there is no copy."""
    rules = view.rules
    if rules is None:
        return None
    copied = view.compute_once(_read_copied_conf)
    if copied is not None and name in copied.settings:
        return Decimal(copied.settings[name].value)
    if name in _BOUNDS:
        return Decimal(0)
    found = rules.get_built_in(name, view.cell.scenario if view.cell.scenario == "Interactive" else scenario)
    return Decimal(found) if isinstance(found, (int, str)) and not isinstance(found, bool) else None


def _read_copied_conf(view: CellView) -> ConfReading | None:
    """Read the copy of mlperf.conf for the scenario that ran."""
    copied, rules, run = view.files.mlperf_conf.value, view.rules, view.performance
    if copied is None or rules is None or run is None:
        return None
    return read_settings(copied, str(rules.get_value("model_key", view.cell.scenario)), run.log.scenario)


@rule(
    "user-conf.refused",
    "a user.conf that LoadGen rejects",
    sources=("LoadGen", OURS),
    cause="conf-of-another-run",
    premises=(RELEASE_IS_KNOWN, Premise("The file is meant for LoadGen, since it sets a value.")),
)
def verify_rejected(view: CellView) -> Complaints:
    """LoadGen's parser, which is the same in all releases, rejects the file, so no run can have used it. A text that
    sets nothing, such as a reference to another file, is a question."""
    conf = view.files.user_conf.value
    for problem in conf.problems if conf else ():
        if problem.fatal:
            yield Complaint(
                Place(view.files.user_conf.file, problem.line),
                f"LoadGen rejects this file: {problem.message}",
                "a user.conf that LoadGen can read",
                cause="the run was started with another file, or without its settings",
                doubt="" if _ASSIGNED in view.files.user_conf_text else "it may be a text that refers to another file",
            )
            return


@question("user-conf.ignored", "which lines of user.conf should apply?", sources=("LoadGen",))
def verify_ignored(view: CellView) -> Complaints:
    """LoadGen ignores a line of the file. A question."""
    conf = view.files.user_conf.value
    for problem in conf.problems if conf else ():
        if not problem.fatal:
            place = Place(view.files.user_conf.file, problem.line)
            yield Complaint(place, f"LoadGen ignores this line: {problem.message}", "a line that has an effect")


@question("user-conf.mlperf-conf", "why does mlperf.conf have other seeds than the run?", sources=(OURS,))
def verify_old_seeds(view: CellView) -> Complaints:
    """A copy of mlperf.conf has the seeds of another round. LoadGen has not read this file since v5.0. A question."""
    copied, run = view.files.mlperf_conf.value, view.performance
    if copied is None or run is None:
        return
    for name in view.ruleset.seeds():
        line = copied.get_effective("*", run.log.scenario, name)
        logged = read_number(run.log, f"effective_{name}")
        if line is not None and logged is not None and line.integer != logged:
            yield Complaint(
                Place(view.files.mlperf_conf.file, line.line),
                f"{name} {line.text}",
                f"{logged}, as in the log",
                cause=_describe_origin(name, line.integer),
                other=find_at(run.log, f"effective_{name}"),
            )
            return


@functools.lru_cache(maxsize=16)
def _describe_origin(name: str, seed: int | None) -> str:
    of_seed = (of for of in list_rounds() if seed is not None and states_itself(of, (seed,)))
    matching = [of for of in of_seed if load_ruleset(of).seeds().get(name) == seed]
    return f"a copy of mlperf.conf from {matching[-1]}" if matching else "a copy of mlperf.conf with seeds of no round"


def read_target(reading: ConfReading | None) -> ConfSetting | None:
    """Return the expected rate or latency that the file sets."""
    settings = reading.settings if reading else {}
    return next((settings[name] for name in TARGETS if name in settings), None)


CONF_RULES = (verify_contradicting, verify_rejected, verify_ignored, verify_unexplained, verify_old_seeds)

"""Find contradictions within a detail log and between the runs of a cell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from reconciler.check.accuracy import find_count_key
from reconciler.check.demands import BENCHMARK_IS_KNOWN, OURS, Complaints
from reconciler.check.limits import check_percentile
from reconciler.loadgen import keys
from reconciler.loadgen.compare import find_unasked_issue
from reconciler.loadgen.consistency import find_inconsistencies, find_small_library
from reconciler.loadgen.inconsistency import Inconsistency
from reconciler.loadgen.value_formats import may_be_set_back
from reconciler.resource.rules import Premise, Severity, question, rule
from reconciler.rules.rounds import list_rounds, load_ruleset, states_itself
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.files import Read
from reconciler.tree.reading.values import find_at, read_end, read_number, read_start, show_value
from reconciler.tree.reading.view import CellView, RunView
from reconciler.verify.premises import FILE_IS_WHOLE, RELEASE_IS_KNOWN, ROUND_IS_KNOWN

NO_COMMIT = "NA"  # written by a LoadGen built outside a repository
_EDITED = "an edited log, one merged from two, or one written by a modified LoadGen"
_SLACK = 1.0  # seconds, for the resolution of LoadGen's clock
_NETWORK_SUT = "Network SUT"
_NETWORK_SUTS = re.compile(r"(?:Multi-Node SUT: )?Network SUT(?:, Network SUT)*+")
_FAR = 30 * 86400.0  # seconds; runs of one campaign are closer together


def list_own_runs(view: CellView) -> Iterator[RunView]:
    """List the runs that belong to the result, without tests that the round does not have."""
    return (run for run in view.list_runs() if not view.is_foreign(run.name))


@rule(
    "log.duration",
    "an impossible duration",
    sources=("LoadGen", OURS),
    cause="impossible-log",
    premises=(RELEASE_IS_KNOWN, Premise("The clock of LoadGen's logger, which ends a run, agrees with the dates.")),
)
def verify_duration(view: CellView) -> Complaints:
    """LoadGen states that the minimum duration was met, but its own clock shows a run shorter by more than a second.
    LoadGen ends a run by its logger's clock, which may not be the clock of the dates: if only the dates contradict, a
    clock may have been set. Runs of both modes, which LoadGen offered before release 4, are skipped, because their
    first clock values are from the accuracy part."""
    for run in view.list_runs():
        yield from _deny_duration(run)


def _deny_duration(run: RunView) -> Complaints:
    start, end = read_start(run.log), read_end(run.log)
    least = read_number(run.log, keys.EFFECTIVE_MIN_DURATION_MS)
    met = run.log.get_plain(keys.RESULT_MIN_DURATION_MET) is True
    # The first clock values of a run of both modes are from its accuracy part.
    if not met or start is None or end is None or least is None or run.log.serves_both:
        return
    lasted = (end - start).total_seconds()
    if lasted + _SLACK < float(least) / 1000:
        began, ended = run.log.index.began_at, run.log.index.ended_at
        counted = (ended - began) / 1000 if began is not None and ended is not None else None
        agrees = counted is not None and float(counted) + _SLACK < float(least) / 1000
        yield Complaint(
            find_at(run.log, keys.EFFECTIVE_MIN_DURATION_MS),
            f"a minimum duration of {float(least) / 1000:g} s that was met",
            f"{lasted:g} s between power_begin and power_end",
            cause=_EDITED,
            other=find_at(run.log, keys.POWER_END),
            doubt="" if agrees else "the clock of LoadGen's logger differs: the clock of the dates may have been set",
        )


@rule(
    "log.validity",
    "VALID although a condition is not met",
    sources=("LoadGen", OURS),
    cause="impossible-log",
    premises=(RELEASE_IS_KNOWN,),
)
def verify_validity(view: CellView) -> Complaints:
    """In every release, LoadGen reports VALID only if all of these conditions are met."""
    for run in view.list_runs():
        yield from _deny_validity(run)


def _deny_validity(run: RunView) -> Complaints:
    failed = [key for key in keys.CONDITIONS if run.log.get_plain(key) is False]
    if run.log.validity == "VALID" and failed:
        place, other = find_at(run.log, keys.RESULT_VALIDITY), find_at(run.log, failed[0])
        yield Complaint(place, "VALID", f"{failed[0]} is false in the same log", cause=_EDITED, other=other)


@rule(
    "log.consistency",
    "a log that contradicts itself",
    sources=("LoadGen", OURS),
    cause="impossible-log",
    premises=(RELEASE_IS_KNOWN, Premise("The contradiction is not about a date or a clock that can be set.")),
)
def verify_consistency(view: CellView) -> Complaints:
    """LoadGen derives the value from others in the same log, reads it from latencies that lie between logged
    percentiles, or copies it under another name. Or a setting of a performance run has a value that the rules reserve
    for compliance tests. A contradiction of dates is a question, because a machine's clock may be set to another year,
    and so is a latency below 0. More samples than the library has are a warning: the count may be too high, or the
    library may report too few.
    """
    for run in view.list_runs():
        said = {key for key, deny in _SAID_ABOVE.items() if any(deny(run))}
        found_wrong = find_inconsistencies(run.log, judge_library=False)
        yield from _ask_about_clock(run, [item for item in found_wrong if may_be_set_back(item)])
        for item in found_wrong:
            if item.key not in said and not may_be_set_back(item):
                yield Complaint(
                    Place(run.log.file, item.line),
                    f"{item.key} {item.stated}",
                    item.derived,
                    cause="" if item.premise else _EDITED,
                    other=Place(run.log.file, item.other) if item.other else None,
                    doubt=f"the log does not show that {item.premise}" if item.premise else "",
                    aspect=item.key,
                )
        for item in () if view.rehearsal or _is_of_test(view, run) else find_small_library(run.log):
            yield Complaint(
                Place(run.log.file, item.line),
                f"{item.key} {item.stated}",
                item.derived,
                cause="an increased count, or a library that reports too few samples to LoadGen",
                other=Place(run.log.file, item.other),
                severity=Severity.WARNING,
                mechanism="small-library",
                aspect=item.key,
            )
        for found in find_unasked_issue(run.log, {}) if run.name == "performance" else ():
            yield Complaint(
                Place(run.log.file, found.line),
                f"{found.field} {found.logged}",
                f"{found.asked}, as in every performance run except compliance tests",
                cause="the run of a compliance test, or settings in the SUT's code",
                mechanism="audited-run",
                aspect=found.field,
            )


def _is_of_test(view: CellView, run: RunView) -> bool:
    """Return True for a test with a separate dataset, for which LoadGen's configuration states the benchmark's size."""
    if view.rules is None or run is view.performance or run is view.accuracy:
        return False
    used = read_number(run.log, keys.EFFECTIVE_PERFORMANCE_SAMPLE_COUNT)
    return bool(used == view.rules.get_built_in(keys.PERFORMANCE_SAMPLE_COUNT, run.scenario))


def _ask_about_clock(run: RunView, negative: Sequence[Inconsistency]) -> Complaints:
    """Ask once per log, since MultiStream has minimum latencies of both queries and samples."""
    for item in negative[:1]:
        yield Complaint(
            Place(run.log.file, item.line),
            f"{item.key} {item.stated}",
            "a latency of at least 0",
            cause="was the machine's clock, which LoadGen uses for latencies, set back during the run?",
            doubt="LoadGen measures latencies with a clock that can be set",
            mechanism="clock-set-back",
            aspect=item.key,
        )


_SAID_ABOVE = {keys.RESULT_VALIDITY: _deny_validity, keys.RESULT_MIN_DURATION_MET: _deny_duration}


@rule(
    "runs.seeds",
    "runs with different seeds",
    sources=(OURS,),
    cause="seeds",
    severity=Severity.WARNING,
    premises=(ROUND_IS_KNOWN,),
)
def verify_seeds(view: CellView) -> Complaints:
    """LoadGen logs its seeds, and all runs of a cell have those of one round. A warning, because an accuracy run's
    seeds only affect the order of the samples.
    """
    run = view.performance
    if run is None:
        return
    for other in list_own_runs(view):
        own = view.get_audit_settings(other.name)
        differing = (n for n in run.log.seeds if n not in own and other.log.seeds.get(n) != run.log.seeds[n])
        name = next(differing, "")
        if name:
            key = f"effective_{name}"
            yield Complaint(
                find_at(other.log, key),
                f"{name} {show_value(other.log.get_plain(key))}",
                f"{run.log.seeds[name]}, the seed of the performance run",
                cause=_explain_seeds(view, other.log.seeds),
                other=find_at(run.log, key),
            )


def _explain_seeds(view: CellView, seeds: Mapping[str, int]) -> str:
    if not any(seeds.values()):
        return "LoadGen used its default seeds, 0: the round's configuration did not apply"
    settings = ((test, view.get_audit_settings(test)) for test in view.test_views)
    tests = [test for test, own in settings if seeds and all(own.get(name) == seed for name, seed in seeds.items())]
    if tests:
        return f"the seeds of the audit.config of {tests[0]}"
    stating = (name for name in list_rounds() if states_itself(name, seeds.values()))
    matching = [name for name in stating if load_ruleset(name).seeds() == seeds]
    return f"the seeds of {matching[-1]}" if matching else "seeds of no known round"


@question("runs.loadgen", "why do the runs use different versions of LoadGen?", sources=(OURS,))
def verify_versions(view: CellView) -> Complaints:
    """The runs of a result use different revisions of LoadGen, which the rules allow. A question."""
    run = view.performance
    for other in list_own_runs(view):
        if run is not None and _are_other_sources(other.log.version, run.log.version):
            yield Complaint(
                find_at(other.log, keys.LOADGEN_VERSION),
                f"LoadGen {show_value(other.log.version or None)}",
                f"{show_value(run.log.version or None)}, as in the performance run",
                other=find_at(run.log, keys.LOADGEN_VERSION),
            )


def _are_other_sources(one: str, other: str) -> bool:
    """Return True if versions or commits differ. A LoadGen built outside a repository has no commit."""
    (number_of_one, _, commit), (number_of_other, _, other_commit) = one.partition(" @ "), other.partition(" @ ")
    return number_of_one != number_of_other or (commit != other_commit and NO_COMMIT not in (commit, other_commit))


@question("runs.dates", "why is a log much older or newer than the result's other logs?", sources=(OURS,))
def verify_dates(view: CellView) -> Complaints:
    """A log is far older than the others, as if left over from an earlier campaign. Runs a month apart are a
    question."""
    run = view.performance
    start = read_start(run.log) if run else None
    if run is None or start is None:
        return
    for other in list_own_runs(view):
        theirs = read_start(other.log)
        if theirs is None or abs((theirs - start).total_seconds()) <= _FAR:
            continue
        days = round((theirs - start).total_seconds() / 86400)
        yield Complaint(
            find_at(other.log, keys.POWER_BEGIN),
            f"{other.name} of {theirs:%Y-%m-%d}",
            f"a run near {start:%Y-%m-%d}, the date of the performance run",
            cause=f"a log {abs(days)} days {'newer' if days > 0 else 'older'} than its neighbour",
            other=find_at(run.log, keys.POWER_BEGIN),
        )


@rule("runs.dataset", "runs with different datasets", sources=(OURS,), cause="dataset", severity=Severity.WARNING)
def verify_datasets(view: CellView) -> Complaints:
    """The runs of one result have datasets of different sizes, and the accuracy run does not have the round's size."""
    accuracy, run = view.accuracy, view.performance
    if accuracy is None or run is None:
        return
    ours, theirs = read_number(run.log, _TOTAL), read_number(accuracy.log, _TOTAL)
    if ours is None or theirs is None or ours == theirs:
        return
    covered = read_number(accuracy.log, find_count_key(accuracy))
    wanted = view.find_rule("exact_accuracy_sample_count")
    if covered is not None and covered == wanted:
        return
    yield Complaint(
        find_at(accuracy.log, _TOTAL),
        f"a dataset of {theirs} samples",
        f"{ours}, as in the performance run",
        cause="an accuracy run of another benchmark or dataset",
        other=find_at(run.log, _TOTAL),
    )


_TOTAL = keys.QSL_REPORTED_TOTAL_COUNT


@question("runs.sut", "why do the runs of a result have different SUT names?", sources=(OURS,))
def verify_names(view: CellView) -> Complaints:
    """The SUT names in the logs of a result differ. A question."""
    run = view.performance
    ours = run.log.get_plain(keys.SUT_NAME) if run else None
    for other in list_own_runs(view):
        theirs = other.log.get_plain(keys.SUT_NAME)
        if run is not None and theirs != ours:
            place = find_at(other.log, keys.SUT_NAME)
            wanted = f"{show_value(ours)}, as in the performance run"
            yield Complaint(place, f"SUT {show_value(theirs)}", wanted, other=find_at(run.log, keys.SUT_NAME))


@question("system.nodes", "why does the log list another number of nodes?", sources=(OURS,))
def verify_nodes(view: CellView) -> Complaints:
    """The log does not list one network SUT per node of the system. A harness lists one for each node that it sends
    queries to: the eight published systems whose logs list any have as many nodes. A question, because one node may
    have several."""
    run, nodes = view.performance, view.system.get_count("number_of_nodes")
    named = run.log.get_plain(keys.SUT_NAME) if run is not None else None
    if run is None or nodes is None or not isinstance(named, str) or not _NETWORK_SUTS.fullmatch(named):
        return
    if named.count(_NETWORK_SUT) != nodes:
        yield Complaint(
            Place(view.system.read.file, view.system.get_line("number_of_nodes")),
            f"number_of_nodes {nodes}",
            f"{named.count(_NETWORK_SUT)}, the number of network SUTs in the log",
            cause="a description of another system, or several SUTs on one node",
            other=find_at(run.log, keys.SUT_NAME),
        )


@question("runs.foreign", "why does the result have a test that the round does not require?", sources=(OURS,))
def verify_foreign(view: CellView) -> Complaints:
    """A result has a compliance test that the round does not have; reported once per result. No verdict depends on it,
    so its seeds, dates, LoadGen and copies of its logs are not compared. A question."""
    if not view.ruleset.is_known:
        return
    foreign = [name for name in view.test_views if view.is_foreign(name)]
    if foreign:
        yield Complaint(
            Place(view.test_views[foreign[0]].log.file),
            f"{' and '.join(foreign)}, which {view.ruleset.round} does not have",
            "the tests of the round",
            cause="left over from an earlier round",
        )


@rule("files.readable", "an unreadable file", sources=(OURS,), cause="unreadable", premises=(FILE_IS_WHOLE,))
def verify_readable(view: CellView) -> Complaints:
    """A file exists but cannot be parsed, so nothing can be compared with it."""
    files = view.files
    reads: list[Read[object]] = [files.user_conf, files.measurements, files.accuracy_text]
    for run in files.list_runs():
        reads += [run.detail, run.summary]
    for read in reads:
        if read.problem:
            yield Complaint(Place(read.file, read.line), read.problem, "a readable file")


@rule(
    check_percentile.rule.id,
    check_percentile.rule.title,
    sources=check_percentile.rule.sources,
    cause="percentile",
    premises=(BENCHMARK_IS_KNOWN,),
)
def verify_percentile(view: CellView) -> Complaints:
    """The log of SingleStream, MultiStream or Server has another percentile than the round uses for the benchmark.
    LoadGen contains the round's percentile for each model key, and the closed division allows no other. Logs without
    the line are skipped, and so is Offline, where it has no effect. In the open division, whose model may have another
    latency, it is a warning."""
    if view.performance is not None:
        yield from check_percentile(view.performance)


RUN_CONTRADICTIONS = (
    verify_readable,
    verify_duration,
    verify_consistency,
    verify_validity,
    verify_percentile,
    verify_seeds,
    verify_datasets,
    verify_versions,
    verify_dates,
    verify_names,
    verify_foreign,
    verify_nodes,
)

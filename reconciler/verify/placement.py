"""Find logs and files in the wrong folder."""

from __future__ import annotations

from decimal import Decimal

from msgspec.structs import replace

from reconciler.check import accuracy, limits, runs
from reconciler.check.demands import OURS, Complaints
from reconciler.loadgen import keys
from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.settings import name_loadgen_scenario
from reconciler.resource.kinds import SCENARIOS
from reconciler.resource.quantities import is_whole, parse_number
from reconciler.resource.rules import Premise, Severity, rule
from reconciler.rules.compliance.judging import find_test
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.cell import Folder
from reconciler.tree.reading.values import find_at, read_number, show_value
from reconciler.tree.reading.view import CellView, RunView
from reconciler.verify.premises import (
    OWN_SCENARIO,
    RELEASE_IS_KNOWN,
    ROUND_IS_KNOWN,
    RUN_IS_OF_THE_FOLDER,
    find_doubt_of_inference,
)

_WANTED = keys.SAMPLING_TARGET


_INFERRED = "the rules of this round are unknown; they may allow the result to be inferred from the other scenario"


def _doubt_inference(complaint: Complaint, view: CellView) -> str:
    """Doubt a wrong scenario if the round, which decides what may be inferred, is unknown. Modes and settings do not
    depend on the round."""
    return "" if view.ruleset.is_known or complaint.aspect != _SCENARIO else _INFERRED


_SCENARIO = "scenario"
_SCENARIO_IS_OWN = Premise(
    "The round is known if another scenario ran, since it may allow the result to be inferred from that one.",
    _doubt_inference,
)


@rule(
    "placement.performance",
    "a performance log in the wrong folder",
    sources=(OURS,),
    cause="other-scenario",
    premises=(RELEASE_IS_KNOWN, _SCENARIO_IS_OWN),
)
def verify_performance(view: CellView) -> Complaints:
    """The published log states that another scenario or mode ran, or that LoadGen read an audit.config, which every
    release logs.
    """
    run = view.performance
    if run is not None:
        yield from (replace(item, aspect=_SCENARIO) for item in runs.check_scenario(run))
        yield from runs.check_mode(run)
        yield from (replace(item, mechanism="audited-run") for item in runs.check_audit_absent(run))
        yield from limits.find_model_key(run) if view.ruleset.is_known else ()


@rule(
    "placement.accuracy",
    "an accuracy log in the wrong folder",
    sources=(OURS,),
    cause="accuracy-of-another-run",
    premises=(RELEASE_IS_KNOWN, _SCENARIO_IS_OWN),
)
def verify_accuracy_run(view: CellView) -> Complaints:
    """The log in accuracy/ states that it is from a performance run or another scenario, or that LoadGen read an
    audit.config.
    """
    yield from accuracy.check_mode(view)
    yield from accuracy.check_audit_config(view)
    run, performed = view.accuracy, view.performance
    if run is None or not run.inferred:
        return
    if performed is None or performed.log.scenario != run.log.scenario:
        found, folder = show_value(run.log.scenario or None), view.cell.scenario
        cause = "the accuracy run of another scenario was copied into this folder"
        place = find_at(run.log, keys.EFFECTIVE_SCENARIO)
        yield Complaint(place, f"a run of {found}", f"a run of {folder}", cause=cause, aspect=_SCENARIO)


@rule(
    "placement.compliance",
    "a compliance log in the wrong folder",
    sources=(OURS,),
    cause="not-a-test",
    premises=(RELEASE_IS_KNOWN, RUN_IS_OF_THE_FOLDER),
)
def verify_tests(view: CellView) -> Complaints:
    """The test's log has neither LoadGen's line about an audit.config nor the test's settings, which code may have
    passed. Or it is from another scenario than the published run, or the number of logged answers is the one that
    another test of this result requires."""
    run = view.performance
    wanted = run.log.scenario if run is not None else name_loadgen_scenario(view.cell.scenario)
    for name, test in view.test_views.items():
        if test.log.scenario != wanted:
            place = find_at(test.log, keys.EFFECTIVE_SCENARIO)
            other = find_at(run.log, keys.EFFECTIVE_SCENARIO) if run is not None else None
            found = f"a run of {show_value(test.log.scenario)}"
            doubt = find_doubt_of_inference(view, name)
            mechanism = OWN_SCENARIO if doubt else ""
            yield Complaint(place, found, f"a run of {wanted}", other=other, doubt=doubt, mechanism=mechanism)
        marked = shows_marks(test.log, name)
        if test.log.audit is None and not marked:  # the tests' README also lets code pass the settings to LoadGen
            cause = "a run without the test's audit.config, or the log of another run"
            yield Complaint(Place(test.log.file), "no audit.config was read", f"a run of {name}", cause=cause)
        elif marked is False:
            setting = find_test(name).marks[0]
            place = find_at(test.log, f"effective_{setting}")
            found = f"{setting} {show_value(test.log.get_plain(f'effective_{setting}'))}"
            yield Complaint(place, found, f"the settings of {name}", cause="the log of another test")
        else:
            yield from _find_exchanged(view, name, test)


def _find_exchanged(view: CellView, name: str, test: RunView) -> Complaints:
    """Find tests whose logs have the number of answers that another test requires."""
    logged, own = read_number(test.log, f"effective_{_WANTED}"), _read_wanted(view, name)
    if logged is None or own is None or logged == own:
        return
    of_other = next((other for other in view.test_views if _read_wanted(view, other) == logged), "")
    if of_other:
        yield Complaint(
            find_at(test.log, f"effective_{_WANTED}"),
            f"{_WANTED} {logged}, as set by the audit.config of {of_other}",
            f"{own}, as set by the audit.config of {name}",
            cause=f"the run used the audit.config of {of_other}, or the two folders were exchanged",
            fix=f"repeat {name} with its own audit.config, or move each run into its folder",
        )


def _read_wanted(view: CellView, name: str) -> Decimal | None:
    """Return the number of answers that the test must log; None if the round does not state it."""
    return parse_number(view.get_audit_settings(name).get(_WANTED))


@rule(
    "placement.measurements",
    "a measurements file in the wrong folder",
    sources=(OURS,),
    cause="other-scenario",
    premises=(
        Premise("The published log exists, since the file may be named after its scenario."),
        Premise("This copy of the tree has the benchmark's code, since its name may end with a scenario's name."),
    ),
)
def verify_measurements(view: CellView) -> Complaints:
    """The file's name contains another scenario than its folder's and the one that its result is inferred from. The
    round's checkers also accept <system>_<implementation>.json, so the name of a folder of the benchmark's code does
    not count as a scenario."""
    name = view.files.measurements_name
    if not view.files.legacy or not name:
        return
    stem = name.removesuffix(".json").lower()
    named = next((s for s in SCENARIOS if stem.endswith(f"_{s.lower()}")), "")
    run = view.performance
    inferred_from = run.log.scenario if run is not None and run.inferred else ""
    code = Folder(f"{view.files.submitter.path}/code/{view.cell.benchmark}", "code")
    implementation = name.removesuffix(".json").removeprefix(f"{view.cell.system}_")
    if named and named not in (view.cell.scenario, inferred_from) and implementation not in code.list_folders():
        doubts = (
            ("" if run is not None else "no log shows which scenario ran, and the result may be inferred from it"),
            ("" if code.exists else "the code, whose name may end with a scenario's name, is not in this copy"),
        )
        place = Place(view.files.measurements.file)
        yield Complaint(
            place,
            f"a file for {named}",
            f"a file for {view.cell.scenario}",
            cause="the file of another cell",
            doubt=next(filter(None, doubts), ""),
        )


PLACEMENT_RULES = (verify_performance, verify_accuracy_run, verify_tests, verify_measurements)


# Audit settings in a compliance test's log, compared with the audit.config that the round publishes.

# Settings that determine which answers a test logs and what it issues. Other rules cover its duration.
_JUDGED = (
    *(keys.SAMPLING_TARGET, "accuracy_log_rng_seed"),
    *(keys.ISSUE_UNIQUE, keys.ISSUE_SAME, keys.ISSUE_SAME_INDEX),
    *(keys.QSL_RNG_SEED, keys.SAMPLE_INDEX_RNG_SEED, keys.SCHEDULE_RNG_SEED),
)


def shows_marks(log: DetailLog, test: str) -> bool | None:
    """Return True if the log has a setting that only this test sets; None if the test has no such setting."""
    marks = find_test(test).marks
    return any(log.get_plain(f"effective_{mark}") for mark in marks) if marks else None


@rule(
    "compliance.settings",
    "an audit.config that differs from the round's",
    sources=("compliance scripts", OURS),
    cause="not-a-test",
    severity=Severity.WARNING,
    premises=(ROUND_IS_KNOWN,),
)
def verify_test_settings(view: CellView) -> Complaints:
    """A test's log states which answers it logged and what it issued, as set by the round's published ``audit.config``.
    Only logs of the closed division with the test's settings are compared: all 1,490 of v4.1 and v5.1 have the round's
    numbers. A warning, because a file of another round may be left over."""
    for test, run in view.test_views.items() if view.division == "closed" else ():
        own = run.log.audit is not None and shows_marks(run.log, test) is not False
        settings = view.get_audit_settings(test) if own else {}
        for name in _JUDGED:
            key = f"effective_{name}"
            logged, wanted = run.log.get_plain(key), settings.get(name)
            if wanted is None or not (is_whole(logged) or isinstance(logged, bool)) or logged == wanted:
                continue
            yield Complaint(
                find_at(run.log, key),
                f"{name} {show_value(logged)}",
                f"{show_value(wanted)}, as in the audit.config of {test} in {view.ruleset.round}",
                cause="a changed audit.config, or one of another round or benchmark",
                fix=f"repeat {test} with the round's audit.config",
            )
            break

"""Logs and files that stand in a folder they do not belong to."""

from __future__ import annotations

from decimal import Decimal

from msgspec.structs import replace

from reconciler.mlperf.compliance.judging import TESTS
from reconciler.mlperf.loadgen.settings import name_loadgen_scenario
from reconciler.quantities import parse_number
from reconciler.resource.kinds import SCENARIOS
from reconciler.tree.check import accuracy, limits, runs
from reconciler.tree.check.demands import OURS, Complaints
from reconciler.tree.findings import Complaint, Place, Rule
from reconciler.tree.reading.values import find_at, number, read_value, show_value
from reconciler.tree.reading.view import CellView, RunView

_WANTED = "accuracy_log_sampling_target"
_MARKS = {name: f"effective_{test.mark}" for name, test in TESTS.items() if test.mark}


def verify_performance(view: CellView) -> Complaints:
    run = view.performance
    if run is not None:
        yield from runs.check_scenario(run)
        yield from runs.check_mode(run)
        yield from (replace(item, mechanism="audited-run") for item in runs.check_audit_absent(run))
        yield from limits.find_model_key(run)


def verify_accuracy_run(view: CellView) -> Complaints:
    yield from accuracy.check_mode(view)
    yield from accuracy.audit(view)
    run, performed = view.accuracy, view.performance
    if run is None or not run.inferred:
        return
    if performed is None or performed.log.scenario != run.log.scenario:
        found, folder = show_value(run.log.scenario or None), view.cell.scenario
        cause = "the accuracy run of another scenario, taken for this one"
        yield Complaint(find_at(run.log, "effective_scenario"), f"a run of {found}", f"a run of {folder}", cause=cause)


def verify_tests(view: CellView) -> Complaints:
    """A compliance run is of the cell's scenario, and has the settings of its test.

    LoadGen tells of an audit.config that it reads; a SUT whose code sets the same leaves no such line.
    """
    run = view.performance
    wanted = run.log.scenario if run is not None else name_loadgen_scenario(view.cell.scenario)
    for name, test in view.test_views.items():
        if test.log.scenario != wanted:
            place = find_at(test.log, "effective_scenario")
            other = find_at(run.log, "effective_scenario") if run is not None else None
            yield Complaint(place, f"a run of {show_value(test.log.scenario)}", f"a run of {wanted}", other=other)
        marked = name in _MARKS and read_value(test.log, _MARKS[name])
        if test.log.audit is None and not marked:  # the tests' README lets code hand the settings to LoadGen, too
            cause = "a run without the test's audit.config, or the log of another run"
            yield Complaint(Place(test.log.file), "no audit.config took part", f"a run of {name}", cause=cause)
        elif name in _MARKS and not marked:
            place = find_at(test.log, _MARKS[name])
            found = f"{_MARKS[name].removeprefix('effective_')} {show_value(read_value(test.log, _MARKS[name]))}"
            yield Complaint(place, found, f"the settings of {name}", cause="the log of another test")
        else:
            yield from _find_exchanged(view, name, test)


def _find_exchanged(view: CellView, name: str, test: RunView) -> Complaints:
    """Tests that want different numbers of answers logged: the number of one in the log of another."""
    logged, own = number(test.log, f"effective_{_WANTED}"), _read_wanted(view, name)
    if logged is None or own is None or logged == own:
        return
    of_other = next((other for other in view.test_views if _read_wanted(view, other) == logged), "")
    if of_other:
        yield Complaint(
            find_at(test.log, f"effective_{_WANTED}"),
            f"{_WANTED} {logged}, as the audit.config of {of_other} sets",
            f"{own}, as that of {name} does",
            cause=f"the run was made under the audit.config of {of_other}, or the two folders were exchanged",
            fix=f"repeat {name} under its own audit.config, or put each run into its folder",
        )


def _read_wanted(view: CellView, name: str) -> Decimal | None:
    """How many answers the test wants logged; None where the round does not say."""
    return parse_number(view.audit_settings(name).get(_WANTED))


def verify_measurements(view: CellView) -> Complaints:
    """Legacy: the file's name ends in its scenario, or in the one that its result is inferred from."""
    name = view.files.measurements_name
    if not view.files.legacy or not name:
        return
    stem = name.removesuffix(".json").lower()
    named = next((s for s in SCENARIOS if stem.endswith(f"_{s.lower()}")), "")
    run = view.performance
    inferred_from = run.log.scenario if run is not None and run.inferred else ""
    if named and named not in (view.cell.scenario, inferred_from):
        place = Place(view.files.measurements.file)
        yield Complaint(place, f"a file for {named}", f"one for {view.cell.scenario}", cause="the file of another cell")


PLACEMENT_RULES = (
    (Rule("placement.performance", "the performance log belongs elsewhere", (OURS,)), verify_performance),
    (Rule("placement.accuracy", "the accuracy log belongs elsewhere", (OURS,)), verify_accuracy_run),
    (Rule("placement.compliance", "a compliance log belongs elsewhere", (OURS,)), verify_tests),
    (Rule("placement.measurements", "the measurements file belongs elsewhere", (OURS,)), verify_measurements),
)

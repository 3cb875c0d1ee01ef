"""Protocol for the result formats that a scenario folder may contain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from reconciler.check.accuracy import ACCURACY_RULES
from reconciler.check.cell_files import FILE_RULES, LOADGEN_FILE_RULES, LOADGEN_READING_RULES
from reconciler.check.compliance import COMPLIANCE_RULES, list_compliance_runs
from reconciler.check.runs import PERFORMANCE_RULES, RUN_RULES
from reconciler.loadgen.settings import find_target
from reconciler.resource.programs import find_program_of_results
from reconciler.rules.programs import load_program
from reconciler.tree.findings import Facts, TreeFinding
from reconciler.tree.reading.values import make_finite, read_number, read_start
from reconciler.tree.reading.view import CellView, RunView
from reconciler.tree.rule_engine import About, Table, apply_rules

# Facts about a result for reports and comparisons across cells, small enough to keep for a whole round.


def read_facts(view: CellView, conf_target: float | None = None) -> Facts:
    """Read the performance log and hash the logs. ``conf_target`` is in the unit of the log's target."""
    metric, unit = choose_cell_format(view).read_metric(view)
    run = view.performance
    aim = find_target(run.log.scenario) if run else None
    target = read_number(run.log, aim.key) if run and aim else None
    start = read_start(run.log) if run else None
    return Facts(
        submitter=view.files.submitter.submitter,
        cell=str(view.cell),
        official=view.official,
        round=view.ruleset.round,
        harness=view.files.format.NAME,
        metric=metric,
        unit=unit,
        target=make_finite(target),
        conf_target=make_finite(conf_target),
        validity=run.log.validity if run else "",
        began=start.timestamp() if start else None,
        digests=_list_digests(view),
    )


def _list_digests(view: CellView) -> tuple[tuple[str, str], ...]:
    once = view.performance is not None and view.performance.log.serves_both
    runs = (run for run in view.files.list_runs() if not (once and run.digest == view.files.performance.digest))
    own = (view.files.performance, *runs) if once else runs
    return tuple((run.name, run.digest) for run in own if run.digest)


class CellFormat(Protocol):
    """Rules for one result format. Each format lists all rules applied to its cells, including those common to all
    formats."""

    @property
    def CHECK_TABLES(self) -> tuple[Table[Any], ...]:  # noqa: N802 - a constant
        """All rules applied to cells of this format."""

    def check(self, view: CellView, about: About) -> Iterator[TreeFinding]:
        """Yield violations of the submission rules in one scenario folder."""

    def read_metric(self, view: CellView) -> tuple[float | None, str]:
        """Return the published result and its unit, or None if the files do not state it."""


_FILES = (*LOADGEN_READING_RULES, *FILE_RULES, *LOADGEN_FILE_RULES)


class LoadGenCells:
    """Cells with LoadGen logs."""

    CHECK_TABLES = (_FILES, PERFORMANCE_RULES, ACCURACY_RULES, COMPLIANCE_RULES)

    def check(self, view: CellView, about: About) -> Iterator[TreeFinding]:
        yield from apply_rules(_FILES, view, about)
        if view.performance is not None:
            yield from apply_rules(PERFORMANCE_RULES, view.performance, about)
        yield from apply_rules(ACCURACY_RULES, view, about)
        yield from apply_rules(COMPLIANCE_RULES, view, about)
        for run in list_compliance_runs(view):
            yield from apply_rules(RUN_RULES, run, about)

    def read_metric(self, view: CellView) -> tuple[float | None, str]:
        run, rules = view.performance, view.rules
        if run is None or rules is None:
            return None, ""
        if run.inferred:
            return _infer_metric(view, run)
        if rules.find_ruled_value("metric_key", run.scenario) is None:
            return None, ""
        metric = rules.find_metric(run.scenario)
        found = read_number(run.log, metric.key)
        return (make_finite(found / metric.divisor), metric.unit) if found is not None else (None, "")


def _infer_metric(view: CellView, run: RunView) -> tuple[float | None, str]:
    """Infer the metric from another scenario's log: by the rounds' definition, MultiStream is eight times
    SingleStream's estimate."""
    rules, folder, category = view.rules, view.cell.scenario, view.system.category
    inference = view.ruleset.find_inference(folder, run.log.scenario, category) if category else None
    found = read_number(run.log, inference.key) if inference is not None else None
    if rules is None or inference is None or not found:
        return None, ""
    unit = rules.find_metric(folder).unit if rules.find_ruled_value("metric_key", folder) is not None else ""
    return make_finite(inference.derive(found)), unit


def choose_cell_format(view: CellView) -> CellFormat:
    return find_cell_format(view.files.format.NAME)


def find_cell_format(results: str) -> CellFormat:
    program = find_program_of_results(results)
    found: CellFormat = load_program(program).find_cell_format(results) if program else LoadGenCells()
    return found

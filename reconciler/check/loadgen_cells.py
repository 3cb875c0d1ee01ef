"""A scenario folder with LoadGen's logs."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.check.accuracy import ACCURACY_RULES
from reconciler.check.cell_files import FILE_RULES, LOADGEN_FILE_RULES, LOADGEN_READING_RULES
from reconciler.check.compliance import COMPLIANCE_RULES, list_compliance_runs
from reconciler.check.runs import PERFORMANCE_RULES, RUN_RULES
from reconciler.tree.findings import TreeFinding
from reconciler.tree.reading.values import make_finite, number
from reconciler.tree.reading.view import CellView, RunView
from reconciler.tree.rule_engine import About, apply_rules

_FILES = (*LOADGEN_READING_RULES, *FILE_RULES, *LOADGEN_FILE_RULES)
CHECK_TABLES = (_FILES, PERFORMANCE_RULES, ACCURACY_RULES, COMPLIANCE_RULES)


def check(view: CellView, about: About) -> Iterator[TreeFinding]:
    yield from apply_rules(_FILES, view, about)
    if view.performance is not None:
        yield from apply_rules(PERFORMANCE_RULES, view.performance, about)
    yield from apply_rules(ACCURACY_RULES, view, about)
    yield from apply_rules(COMPLIANCE_RULES, view, about)
    for run in list_compliance_runs(view):
        yield from apply_rules(RUN_RULES, run, about)


def read_metric(view: CellView) -> tuple[float | None, str]:
    run, rules = view.performance, view.rules
    if run is None or rules is None:
        return None, ""
    if run.inferred:
        return _inferred_metric(view, run)
    if rules.find_ruled_value("metric_key", run.scenario) is None:
        return None, ""
    metric = rules.find_metric(run.scenario)
    found = number(run.log, metric.key)
    return (make_finite(found / metric.divisor), metric.unit) if found is not None else (None, "")


def _inferred_metric(view: CellView, run: RunView) -> tuple[float | None, str]:
    """Infer the metric from another scenario's log: MultiStream, as rounds say, is eight times SingleStream's
    estimate."""
    rules, folder, category = view.rules, view.cell.scenario, view.system.category
    inference = view.ruleset.find_inference(folder, run.log.scenario, category) if category else None
    found = number(run.log, inference.key) if inference is not None else None
    if rules is None or inference is None or not found:
        return None, ""
    unit = rules.find_metric(folder).unit if rules.find_ruled_value("metric_key", folder) is not None else ""
    return make_finite(inference.derive(found)), unit

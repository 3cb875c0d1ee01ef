"""A scenario folder that the endpoints harness filled."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.check.cell_files import ENDPOINTS_READING_RULES, FILE_RULES
from reconciler.check.endpoints import ENDPOINTS_RULES
from reconciler.rules.endpoints import read_measured
from reconciler.tree.findings import TreeFinding
from reconciler.tree.reading.values import make_finite
from reconciler.tree.reading.view import CellView
from reconciler.tree.rule_engine import About, apply_rules

CHECK_TABLES = (ENDPOINTS_READING_RULES, FILE_RULES, ENDPOINTS_RULES)


def check(view: CellView, about: About) -> Iterator[TreeFinding]:
    for table in CHECK_TABLES:
        yield from apply_rules(table, view, about)


def read_metric(view: CellView) -> tuple[float | None, str]:
    summary, rules, scenario = view.files.result_summary.value, view.rules, view.cell.scenario
    if summary is None or rules is None or rules.ruled("metric_key", scenario) is None:
        return None, ""
    metric = view.ruleset.endpoints.metric(rules.name, scenario, rules.metric(scenario))
    found = read_measured(summary, metric.key)
    return (make_finite(found / metric.divisor), metric.unit) if found is not None else (None, "")

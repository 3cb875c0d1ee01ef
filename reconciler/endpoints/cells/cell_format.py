"""The format of a scenario folder with results of the endpoints harness."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.check.cell_files import FILE_RULES, check_documents, check_readable_logs, find_broken, find_empty
from reconciler.check.demands import Complaints
from reconciler.endpoints.cells.check import ENDPOINTS_RULES
from reconciler.endpoints.results.measurements import read_measured
from reconciler.loadgen.log_files import CONFIG
from reconciler.resource.rules import applies
from reconciler.rules.ruleset import Ruleset
from reconciler.tree.content import CellContent, Rendered
from reconciler.tree.findings import TreeFinding
from reconciler.tree.layout import Layout, MakePath
from reconciler.tree.reading.cell import README
from reconciler.tree.reading.values import make_finite
from reconciler.tree.reading.view import CellView
from reconciler.tree.rule_engine import About, apply_rules

DESCRIBED = """\
- performance run: `performance/`, with the configuration in `config.yaml`, which is that of this very run
- accuracy run: `accuracy/`, scored by the endpoints harness"""


@applies(check_documents.rule)
def check_readme(view: CellView) -> Complaints:
    """Require only README.md: the endpoints harness does not configure LoadGen."""
    yield from find_empty(view, (README,))


@applies(check_readable_logs.rule)
def check_readable_results(view: CellView) -> Complaints:
    """Require that every existing file is readable."""
    files = view.files
    yield from find_broken((files.config, files.result_summary, files.accuracy_results, files.measurements))


_READING_RULES = (check_readable_results, check_readme)
CHECK_TABLES = (_READING_RULES, FILE_RULES, ENDPOINTS_RULES)


def check(view: CellView, about: About) -> Iterator[TreeFinding]:
    for table in CHECK_TABLES:
        yield from apply_rules(table, view, about)


def read_metric(view: CellView) -> tuple[float | None, str]:
    summary, rules, scenario = view.files.result_summary.value, view.rules, view.cell.scenario
    if summary is None or rules is None or rules.find_ruled_value("metric_key", scenario) is None:
        return None, ""
    metric = view.ruleset.endpoints.make_metric(rules.name, scenario, rules.find_metric(scenario))
    found = read_measured(summary, metric.key)
    return (make_finite(found / metric.divisor), metric.unit) if found is not None else (None, "")


def render_runs(content: CellContent, _: Ruleset, layout: Layout, at: MakePath) -> Iterator[Rendered]:
    """Copy the files byte for byte, since the checker compares them with the measurements."""
    assert content.configuration is not None
    yield at(layout.cell_file, file=CONFIG), content.configuration
    for folder, files in (("performance", content.performance), ("accuracy", content.accuracy)):
        for name, file in files.items():
            yield at(layout.cell_file, file=f"{folder}/{name}"), file
    for folder, files in content.compliance.items():
        for name, file in files.items():
            yield at(layout.cell_file, file=f"{folder}/{name}"), file

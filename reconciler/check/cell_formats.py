"""The protocol of the formats of results that a scenario folder may show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from reconciler.check import loadgen_cells
from reconciler.loadgen.settings import find_target
from reconciler.resource.programs import find_program_of_results
from reconciler.rules.programs import load_program
from reconciler.tree.findings import Facts, TreeFinding
from reconciler.tree.reading.values import make_finite, number, read_start
from reconciler.tree.reading.view import CellView
from reconciler.tree.rule_engine import About, Table

# The facts of a result that reports and comparisons across cells need, small enough to keep for a whole round.


def read_facts(view: CellView, conf_target: float | None = None) -> Facts:
    """Reads the performance log and hashes the logs; ``conf_target`` in the unit of the log's target."""
    metric, unit = choose_cell_format(view).read_metric(view)
    run = view.performance
    aim = find_target(run.log.scenario) if run else None
    target = number(run.log, aim.key) if run and aim else None
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
        digests=_digests(view),
    )


def _digests(view: CellView) -> tuple[tuple[str, str], ...]:
    once = view.performance is not None and view.performance.log.serves_both
    runs = (run for run in view.files.list_runs() if not (once and run.digest == view.files.performance.digest))
    own = (view.files.performance, *runs) if once else runs
    return tuple((run.name, run.digest) for run in own if run.digest)


class CellFormat(Protocol):
    """A module for each format. Each lists all rules that are applied to its cells, also those that every format
    has."""

    @property
    def CHECK_TABLES(self) -> tuple[Table[Any], ...]:  # noqa: N802 - a constant of the module
        """All rules that are applied to cells of this format."""

    def check(self, view: CellView, about: About) -> Iterator[TreeFinding]:
        """Yield what the submission rules forbid in one scenario folder."""

    def read_metric(self, view: CellView) -> tuple[float | None, str]:
        """Read the published result and its unit; None when the results do not say."""


def choose_cell_format(view: CellView) -> CellFormat:
    return find_cell_format(view.files.format.NAME)


def find_cell_format(results: str) -> CellFormat:
    program = find_program_of_results(results)
    found: CellFormat = load_program(program).find_cell_format(results) if program else loadgen_cells
    return found

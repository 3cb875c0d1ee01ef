"""The protocol of the formats that a scenario folder may show, and the table of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from reconciler.check import endpoints_cells, loadgen_cells
from reconciler.rules.results import endpoints_results, loadgen_logs
from reconciler.tree.findings import TreeFinding
from reconciler.tree.reading.view import CellView
from reconciler.tree.rule_engine import About


class CellFormat(Protocol):
    """A module for each format. Each lists all rules that are applied to its cells, also those that every format
    has."""

    def check(self, view: CellView, about: About) -> Iterator[TreeFinding]:
        """Yield what the submission rules forbid in one scenario folder."""

    def read_metric(self, view: CellView) -> tuple[float | None, str]:
        """Read the published result and its unit; None when the results do not say."""


CELL_FORMATS: dict[str, CellFormat] = {loadgen_logs.NAME: loadgen_cells, endpoints_results.NAME: endpoints_cells}


def choose_cell_format(view: CellView) -> CellFormat:
    return CELL_FORMATS[view.files.format.NAME]

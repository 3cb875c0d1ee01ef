"""The protocol of the formats that a scenario folder may show, and the table of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from reconciler.check import endpoints_cells, loadgen_cells
from reconciler.rules.results import endpoints_results, loadgen_logs
from reconciler.tree.findings import Gap, TreeFinding
from reconciler.tree.reading.view import CellView
from reconciler.tree.rule_engine import About


class CellFormat(Protocol):
    """A module for each format. Each lists all rules that are applied to its cells, also those that every format
    has."""

    def check(self, view: CellView, about: About) -> Iterator[TreeFinding]:
        """What the submission rules forbid in one scenario folder."""

    def verify(self, view: CellView, about: About) -> Iterator[TreeFinding]:
        """What contradicts itself within one scenario folder."""

    def find_gaps(self, view: CellView) -> Iterator[Gap]:
        """One for each file that a comparison needs and that is of no use."""

    def read_metric(self, view: CellView) -> tuple[float | None, str]:
        """What is published, and its unit; None when the results do not say."""


CELL_FORMATS: dict[str, CellFormat] = {loadgen_logs.NAME: loadgen_cells, endpoints_results.NAME: endpoints_cells}


def choose_cell_format(view: CellView) -> CellFormat:
    return CELL_FORMATS[view.files.format.NAME]

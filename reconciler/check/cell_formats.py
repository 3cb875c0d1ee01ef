"""The protocol of the formats of results that a scenario folder may show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from reconciler.check import loadgen_cells
from reconciler.resource.programs import find_program_of_results
from reconciler.rules.programs import load_program
from reconciler.tree.findings import TreeFinding
from reconciler.tree.reading.view import CellView
from reconciler.tree.rule_engine import About, Table


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

"""The protocol by which the runs of a cell are rendered, by the format of their results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from reconciler.resource.programs import find_program_of_results
from reconciler.rules.programs import load_program
from reconciler.rules.ruleset import Ruleset
from reconciler.tree.content import CellContent, Rendered
from reconciler.tree.formats import loadgen_runs
from reconciler.tree.layout import Layout, MakePath


class RenderedFormat(Protocol):
    """A module for each format. ``DESCRIBED``: what a cell's README.md says of the files of its runs."""

    DESCRIBED: str

    def render_runs(self, content: CellContent, ruleset: Ruleset, layout: Layout, at: MakePath) -> Iterator[Rendered]:
        """What a scenario folder has beside its measurements and its README.md. ``at``: a path of the layout."""


def find_rendered_format(results: str) -> RenderedFormat:
    program = find_program_of_results(results)
    found: RenderedFormat = load_program(program).find_rendered_format(results) if program else loadgen_runs
    return found

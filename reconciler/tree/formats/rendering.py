"""The protocol by which the runs of a cell are rendered, and the table of the formats that have a scenario folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from reconciler.rules.results import endpoints_results, loadgen_logs
from reconciler.rules.ruleset import Ruleset
from reconciler.tree.content import CellContent, Rendered
from reconciler.tree.formats import endpoints_runs, loadgen_runs
from reconciler.tree.layout import Layout, MakePath


class RenderedFormat(Protocol):
    """A module for each format. ``DESCRIBED``: what a cell's README.md says of the files of its runs."""

    DESCRIBED: str

    def render_runs(self, content: CellContent, ruleset: Ruleset, layout: Layout, at: MakePath) -> Iterator[Rendered]:
        """What a scenario folder has beside its measurements and its README.md. ``at``: a path of the layout."""


FORMATS_RENDERED: dict[str, RenderedFormat] = {
    loadgen_logs.NAME: loadgen_runs,
    endpoints_results.NAME: endpoints_runs,
}

"""Charts as numbers, and the protocols through which a program other than MLPerf Inference adds its own charts."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from reconciler.errors import ReconcilerError
from reconciler.render.documents import Document


class Stroke(StrEnum):
    LINE = "line"
    POINTS = "points"
    CROSSES = "crosses"
    BOUND = "bound"


class Curve(Struct, frozen=True):
    """``tone``: a colour for curves that belong together, instead of the one of its position or stroke. ``notes``: the
    tooltip of each point."""

    label: str
    points: tuple[tuple[float, float], ...]
    stroke: Stroke = Stroke.LINE
    tone: int | None = None
    notes: tuple[str, ...] = ()


class Chart(Struct, frozen=True):
    """``name``: the name of its file. ``ticks``: labels at 0, 1, 2 … on an axis without numbers. ``summary``: a
    sentence about the plot. ``marks``: positions on the x axis at which something changed, each with a text."""

    name: str
    title: str
    across: str
    up: str
    curves: tuple[Curve, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    summary: str = ""
    ticks: tuple[str, ...] = ()
    marks: tuple[tuple[float, str], ...] = ()

    @property
    def has_course(self) -> bool:
        """Return False if it has at most one point: its summary then says everything."""
        return len({x for curve in self.curves for x, _ in curve.points}) > 1


class ProgramPage(Protocol):
    """Page views for the curves of a program other than MLPerf Inference. ``document``: the matrix's document."""

    CHARTS: tuple[str, ...]

    def read_template(self) -> str:
        """Return the template of a curve's view."""

    def arrange_curve(self, document: Document, name: str) -> Document:
        """Return the variables of that template."""

    def draw_curve(self, curve: Document) -> tuple[Chart, ...]:
        """Return the curve's charts; none if no point is measured."""

    def sum_up_curve(self, curve: Document, rows: Sequence[Document]) -> Document:
        """Return the curve's row of the matrix. ``rows``: the rows of its points."""


class ProgramPlots(Protocol):
    """Plots of curves. ``others``: folders or commits in the same plot; ``name``: the chart's name, None for the
    default."""

    def chart_folder(self, folder: str, others: tuple[str, ...], name: str | None) -> Chart:
        """Chart every curve of the submissions in a folder."""

    def chart_declared(self, matrix: Document, curve: str, others: tuple[str, ...], name: str | None) -> Chart:
        """Chart a curve of the spec, from the document of the page's matrix."""


def find_curve(document: Document, name: str) -> Document:
    """Find a curve in the matrix's ``document``. Raises ReconcilerError if no curve has this name."""
    curves: list[Document] = document["curves"]
    found = next((curve for curve in curves if curve["curve"] == name), None)
    if found is None:
        known = ", ".join(curve["curve"] for curve in curves)
        raise ReconcilerError(f"no curve is named {name!r}", fix=f"curves: {known or 'none is declared'}")
    return found

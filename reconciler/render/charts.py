"""Charts as numbers, and the protocols by which a program other than MLPerf Inference adds its own."""

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
    """``tone``: which colour it has, where that is not its place's or its stroke's: curves that belong together.
    ``notes``: for each point, what is shown on pointing at it."""

    label: str
    points: tuple[tuple[float, float], ...]
    stroke: Stroke = Stroke.LINE
    tone: int | None = None
    notes: tuple[str, ...] = ()


class Chart(Struct, frozen=True):
    """``name`` is that of its file. ``ticks``: labels at 0, 1, 2 … of an axis that has no numbers. ``summary``: a
    sentence about the plot. ``marks``: places across at which something changed, each with its words."""

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
        """False where it has one point at most, so that its summary says all."""
        return len({x for curve in self.curves for x, _ in curve.points}) > 1


class ProgramPage(Protocol):
    """Curves of another program than MLPerf Inference for the page. ``document``: of the matrix."""

    CHARTS: tuple[str, ...]

    def read_template(self) -> str:
        """The template of a curve's view."""

    def arrange_curve(self, document: Document, name: str) -> Document:
        """The variables of that template."""

    def draw_curve(self, curve: Document) -> tuple[Chart, ...]:
        """Its charts; none where no point is measured."""

    def sum_up_curve(self, curve: Document, rows: Sequence[Document]) -> Document:
        """Its row of the matrix. ``rows``: of its points."""


class ProgramPlots(Protocol):
    """Plots of curves. ``others``: folders or commits in the same plot; ``name``: of the chart, None for the usual."""

    def chart_folder(self, folder: str, others: tuple[str, ...], name: str | None) -> Chart:
        """Every curve of the submissions in a folder."""

    def chart_declared(self, matrix: Document, curve: str, others: tuple[str, ...], name: str | None) -> Chart:
        """A curve of the spec, from the document of the page's matrix."""


def find_curve(document: Document, name: str) -> Document:
    """``document``: of the matrix. Raises ReconcilerError for a name that no curve has."""
    curves: list[Document] = document["curves"]
    found = next((curve for curve in curves if curve["curve"] == name), None)
    if found is None:
        known = ", ".join(curve["curve"] for curve in curves)
        raise ReconcilerError(f"there is no curve {name!r}", fix=f"curves: {known or 'none is declared'}")
    return found

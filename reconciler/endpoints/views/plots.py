"""Plots of curves for `reconcile plot`: curves of a folder or of a spec, with those of other folders and commits if
asked."""

from __future__ import annotations

from decimal import Decimal
from operator import attrgetter
from pathlib import Path

from reconciler.cli.shared.repository import find_repository
from reconciler.diff.timeline import find_dominated
from reconciler.endpoints.rules.pareto import ParetoCurve
from reconciler.endpoints.tree.reading import find_submissions
from reconciler.endpoints.views.page import CHARTS, chart_curves, read_pareto
from reconciler.errors import ReconcilerError
from reconciler.history.compare import read_own_sides
from reconciler.render.charts import Chart, find_curve
from reconciler.render.documents import Document


def chart_folder(folder: str, others: tuple[str, ...], name: str | None) -> Chart:
    """Chart the curves of a folder. ``others``: folders or commits; ``name``: the chart's name."""
    return _chart_curves(_read_folder(Path(folder), folder if others else ""), others, name)


def chart_declared(matrix: Document, curve: str, others: tuple[str, ...], name: str | None) -> Chart:
    """Chart a curve of the spec, from the document of the page's matrix."""
    own = {f"{curve}, now" if others else curve: read_pareto(find_curve(matrix, curve))}
    return _chart_curves(own, others, name, curve)


def _chart_curves(drawn: dict[str, ParetoCurve], others: tuple[str, ...], name: str | None, curve: str = "") -> Chart:
    """``others``: folders or commits. ``curve``: the curve of a commit to draw, "" for all."""
    chosen = name or CHARTS[0]
    if chosen not in CHARTS:
        raise ReconcilerError(f"{name} is a plot for cells", fix=f"--of {CHARTS[0]}")
    for other in others:
        drawn |= _read_folder(Path(other), other) if Path(other).is_dir() else _read_commit(other, curve)
    return chart_curves(chosen, drawn)


def _read_folder(folder: Path, called: str) -> dict[str, ParetoCurve]:
    """Read every curve, named after its system and model, and after its folder if there are several."""
    curves = (curve for item in find_submissions(folder) for system in item.systems for curve in system.curves)
    names = ((f"{curve.system} / {curve.model}", curve.pareto) for curve in curves)
    return {f"{called}: {label}" if called else label: pareto for label, pareto in names}


def _read_commit(name: str, curve: str) -> dict[str, ParetoCurve]:
    sides = [side for side in read_own_sides(find_repository().root, name).values() if curve in ("", side.curve)]
    found: dict[str, ParetoCurve] = {}
    for known in sorted({side.curve for side in sides if side.point}):
        own = [side for side in sides if side.curve == known]
        points = sorted((side.point for side in own if side.point), key=attrgetter("concurrency"))
        ceiling = next((Decimal(side.value) for side in own if side.offline), None)
        found[f"{known}, {name}"] = ParetoCurve(tuple(points), ceiling, find_dominated(points))
    if not found:
        raise ReconcilerError(f"{name} has no curve {curve}".rstrip(), fix="use a commit with its records")
    return found

"""`reconcile plot CELL -o FILE`: a picture of the page as a file of its own."""

from __future__ import annotations

from decimal import Decimal
from operator import attrgetter
from pathlib import Path

import click

from reconciler.cli.compare import read_own_sides
from reconciler.cli.shared.options import cell_argument, spec_option, takes
from reconciler.cli.shared.output import say
from reconciler.cli.shared.page_source import RepositoryPage
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.cli.shared.repository import find_repository
from reconciler.errors import IN_SYNC, ReconcilerError
from reconciler.page.charts import CHARTS, Chart
from reconciler.page.curve_charts import CURVE_CHARTS, chart_curves
from reconciler.page.curve_view import find_curve, read_pareto
from reconciler.page.plots import FORMATS, THEMES, draw_plot
from reconciler.page.site import Site
from reconciler.resource.kinds import CURVE_DIVISIONS
from reconciler.rules.endpoints_program.pareto import ParetoCurve, find_dominated
from reconciler.storage.leftovers import write_output
from reconciler.tree.curve.reading import find_submissions, is_endpoints_submission

_SLASHES = 2  # in the name of a curve: DIVISION/SYSTEM/BENCHMARK
_OUTPUT = click.Option(
    ["-o", "--output"],
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="FILE.svg or FILE.png.",
)
_OF = click.Option(
    ["--of", "name"],
    type=click.Choice((*CHARTS, *CURVE_CHARTS)),
    help=f"What it shows. Default: {CHARTS[0]} of a cell, {CURVE_CHARTS[0]} of a curve.",
)
_THEME = click.Option(
    ["--theme"], type=click.Choice(THEMES), default=THEMES[0], show_default=True, help="The background it is meant for."
)
_BESIDE = click.Option(
    ["--beside"],
    multiple=True,
    metavar="FOLDER|COMMIT",
    help="Another Endpoints submission, or the curve at a commit, in the same plot: another stack, or another date.",
)


@click.command("plot")
@takes([cell_argument(), _OUTPUT, _OF, _THEME, _BESIDE, spec_option()])
def command(
    cell: str, output: Path, name: str | None, theme: str, beside: tuple[str, ...], specs: tuple[str, ...]
) -> int:
    """Plot CELL as the page does: its runs, latencies, throughput or telemetry, or its committed results.

    For a curve of MLPerf Endpoints (DIVISION/SYSTEM/BENCHMARK), or a folder with a submission: the official step
    function (pareto), TTFT (ttft) or throughput (scaling) over concurrency.
    """
    form = output.suffix.removeprefix(".").lower()
    if form not in FORMATS:
        raise ReconcilerError(f"{output}: a plot is written as {' or '.join(FORMATS)}", fix=f"-o {output.stem}.svg")
    if is_endpoints_submission(Path(cell)):
        drawn = _read_folder(Path(cell), cell if beside else "")
        chart, title = _chart_curves(drawn, beside, name), ""
    elif cell.partition("/")[0] in CURVE_DIVISIONS and cell.count("/") == _SLASHES:
        page = RepositoryPage(*find_asked_cells(specs))
        own = {f"{cell}, now" if beside else cell: read_pareto(find_curve(page.read_matrix(), cell))}
        chart, title = _chart_curves(own, beside, name, cell), ""
    else:
        chart, title = _chart_cell(cell, name or CHARTS[0], beside, specs)
    write_output(output.absolute(), draw_plot(chart, theme=theme, form=form, title=f"{title}{chart.title}"))
    say(f"Wrote {output}: {chart.title.lower()}. {chart.summary}".rstrip())
    return IN_SYNC


def _chart_cell(cell: str, name: str, beside: tuple[str, ...], specs: tuple[str, ...]) -> tuple[Chart, str]:
    if name in CURVE_CHARTS or beside:
        fix = "name the folder of a submission in place of the cell, or the curve: DIVISION/SYSTEM/BENCHMARK"
        raise ReconcilerError(f"{name} is a plot of curves", fix=fix)
    source = RepositoryPage(*find_asked_cells(specs))
    found = source.find(cell)
    return Site(source).draw_chart(found, name), f"{found}: "


def _chart_curves(drawn: dict[str, ParetoCurve], beside: tuple[str, ...], name: str | None, curve: str = "") -> Chart:
    """``beside``: folders or commits. ``curve``: the one of a commit to draw, "" for all."""
    chosen = name or CURVE_CHARTS[0]
    if chosen not in CURVE_CHARTS:
        raise ReconcilerError(f"{name} is a plot of a cell", fix=f"--of {CURVE_CHARTS[0]}")
    for other in beside:
        drawn |= _read_folder(Path(other), other) if Path(other).is_dir() else _read_commit(other, curve)
    return chart_curves(chosen, drawn)


def _read_folder(folder: Path, called: str) -> dict[str, ParetoCurve]:
    """Every curve, called after its system and model, and after its folder where there are several."""
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
        raise ReconcilerError(f"{name} has no curve {curve}".rstrip(), fix="name a commit whose records it is in")
    return found

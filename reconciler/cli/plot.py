"""`reconcile plot CELL -o FILE`: a picture of the page as a file of its own."""

from __future__ import annotations

from pathlib import Path

import click

from reconciler.cli.shared.options import cell_argument, spec_option, takes
from reconciler.cli.shared.output import say
from reconciler.cli.shared.page_source import RepositoryPage
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.errors import IN_SYNC, ReconcilerError
from reconciler.files import write_output
from reconciler.mlperf.endpoints_program.pareto import ParetoCurve
from reconciler.render.page.charts import CHARTS, Chart
from reconciler.render.page.curve_charts import CURVE_CHARTS, chart_curves
from reconciler.render.page.plots import FORMATS, THEMES, draw_plot
from reconciler.render.page.site import Site
from reconciler.tree.curve.reading import find_submissions, is_endpoints_submission

_OUTPUT = click.Option(
    ["-o", "--output"],
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="What to write: FILE.svg or FILE.png.",
)
_OF = click.Option(
    ["--of", "name"],
    type=click.Choice((*CHARTS, *CURVE_CHARTS)),
    help=f"What it shows. Default: {CHARTS[0]} of a cell, {CURVE_CHARTS[0]} of a curve.",
)
_THEME = click.Option(
    ["--theme"], type=click.Choice(THEMES), default=THEMES[0], show_default=True, help="For which background."
)
_BESIDE = click.Option(
    ["--beside"],
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    multiple=True,
    metavar="FOLDER",
    help="Another Endpoints submission, in the same plot: another stack, or another date.",
)


@click.command("plot")
@takes([cell_argument(), _OUTPUT, _OF, _THEME, _BESIDE, spec_option()])
def command(
    cell: str, output: Path, name: str | None, theme: str, beside: tuple[Path, ...], specs: tuple[str, ...]
) -> int:
    """Plot CELL as the page does: its runs, latencies, throughput or telemetry, or its committed results.

    Of a folder with an MLPerf Endpoints submission: its curves as the official step function (pareto), TTFT (ttft) or
    throughput (scaling) over concurrency.
    """
    form = output.suffix.removeprefix(".").lower()
    if form not in FORMATS:
        raise ReconcilerError(f"{output}: a plot is written as {' or '.join(FORMATS)}", fix=f"-o {output.stem}.svg")
    folder = Path(cell)
    if is_endpoints_submission(folder):
        chart, title = _chart_curves((folder, *beside), name or CURVE_CHARTS[0]), ""
    else:
        chart, title = _chart_cell(cell, name or CHARTS[0], beside, specs)
    write_output(output.absolute(), draw_plot(chart, theme=theme, form=form, title=f"{title}{chart.title}"))
    say(f"Wrote {output}: {chart.title.lower()}. {chart.summary}".rstrip())
    return IN_SYNC


def _chart_cell(cell: str, name: str, beside: tuple[Path, ...], specs: tuple[str, ...]) -> tuple[Chart, str]:
    if name in CURVE_CHARTS or beside:
        fix = "name the folder of a submission in place of the cell"
        raise ReconcilerError(f"{name} is a plot of Endpoints submissions", fix=fix)
    source = RepositoryPage(*find_asked_cells(specs))
    found = source.find(cell)
    return Site(source).draw_chart(found, name), f"{found}: "


def _chart_curves(folders: tuple[Path, ...], name: str) -> Chart:
    """Every curve of each folder, called after its system and model, and after its folder where there are several."""
    if name not in CURVE_CHARTS:
        raise ReconcilerError(f"{name} is a plot of a cell", fix=f"--of {CURVE_CHARTS[0]}")
    curves: dict[str, ParetoCurve] = {}
    for folder in folders:
        for submission in find_submissions(folder):
            for system in submission.systems:
                for curve in system.curves:
                    label = f"{curve.system} / {curve.model}"
                    curves[f"{folder}: {label}" if len(folders) > 1 else label] = curve.pareto
    return chart_curves(name, curves)

"""`reconcile plot CELL -o FILE`: write a plot of the page as a file."""

from __future__ import annotations

from pathlib import Path

import click

from reconciler.cli.shared.options import cell_argument, file_option, spec_option, takes
from reconciler.cli.shared.output import say
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.errors import IN_SYNC, ReconcilerError
from reconciler.page.charts import CHARTS
from reconciler.page.plots import FORMATS, THEMES, draw_plot
from reconciler.page.repository_page import RepositoryPage
from reconciler.page.site import Site, list_curve_charts
from reconciler.render.charts import Chart, ProgramPlots
from reconciler.resource.programs import find_program_of_division
from reconciler.rules.programs import Program, find_program_of_tree, load_program
from reconciler.storage.leftovers import write_output

_SLASHES = 2  # in the name of a curve: DIVISION/SYSTEM/BENCHMARK
_OF_CURVES = list_curve_charts()
_OUTPUT = file_option("FILE.svg or FILE.png.", required=True)
_OF = click.Option(
    ["--of", "name"],
    type=click.Choice((*CHARTS, *_OF_CURVES)),
    metavar="CHART",
    help=f"One of {', '.join((*CHARTS, *_OF_CURVES))}. "
    f"Default: {CHARTS[0]} of a cell{''.join(f', {name} of a curve' for name in _OF_CURVES[:1])}.",
)
_THEME = click.Option(
    ["--theme"], type=click.Choice(THEMES), default=THEMES[0], show_default=True, help="The background it is meant for."
)
_WITH = click.Option(
    ["--with", "others"],
    multiple=True,
    metavar="FOLDER|COMMIT",
    help="Another Endpoints submission, or the curve at a commit, in the same plot: another stack, or another date.",
)


@click.command("plot")
@takes([cell_argument(), _OUTPUT, _OF, _THEME, _WITH, spec_option()])
def command(
    cell: str, output: Path, name: str | None, theme: str, others: tuple[str, ...], specs: tuple[str, ...]
) -> int:
    """Plot CELL as the page does: its runs, latencies, throughput or telemetry, or its committed results.

    For a curve of MLPerf Endpoints (DIVISION/SYSTEM/BENCHMARK), or a folder with a submission: the official step
    function (pareto), TTFT (ttft) or throughput (scaling) over concurrency.
    """
    form = output.suffix.removeprefix(".").lower()
    if form not in FORMATS:
        raise ReconcilerError(f"{output}: a plot is written as {' or '.join(FORMATS)}", fix=f"-o {output.stem}.svg")
    owner = find_program_of_division(cell.partition("/")[0])
    if (program := find_program_of_tree(Path(cell))) is not None:
        chart, title = _load_plots(program).chart_folder(cell, others, name), ""
    elif owner and cell.count("/") == _SLASHES:
        page = RepositoryPage(*find_asked_cells(specs))
        chart, title = _load_plots(load_program(owner)).chart_declared(page.read_matrix(), cell, others, name), ""
    else:
        chart, title = _chart_cell(cell, name or CHARTS[0], others, specs)
    write_output(output.absolute(), draw_plot(chart, theme=theme, form=form, title=f"{title}{chart.title}"))
    say(f"Wrote {output}: {chart.title.lower()}. {chart.summary}".rstrip())
    return IN_SYNC


def _load_plots(program: Program) -> ProgramPlots:
    plots: ProgramPlots = program.load_plots()
    return plots


def _chart_cell(cell: str, name: str, others: tuple[str, ...], specs: tuple[str, ...]) -> tuple[Chart, str]:
    if name in _OF_CURVES or others:
        fix = "name the folder of a submission instead of the cell, or the curve: DIVISION/SYSTEM/BENCHMARK"
        raise ReconcilerError(f"{name} is a plot of curves", fix=fix)
    source = RepositoryPage(*find_asked_cells(specs))
    found = source.find(cell)
    return Site(source).draw_chart(found, name), f"{found}: "

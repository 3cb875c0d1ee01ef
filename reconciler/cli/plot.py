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
from reconciler.render.page.charts import CHARTS
from reconciler.render.page.plots import FORMATS, THEMES, draw_plot
from reconciler.render.page.site import Site

_OUTPUT = click.Option(
    ["-o", "--output"],
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="What to write: FILE.svg or FILE.png.",
)
_OF = click.Option(
    ["--of", "name"], type=click.Choice(CHARTS), default=CHARTS[0], show_default=True, help="What it shows."
)
_THEME = click.Option(
    ["--theme"], type=click.Choice(THEMES), default=THEMES[0], show_default=True, help="For which background."
)


@click.command("plot")
@takes([cell_argument(), _OUTPUT, _OF, _THEME, spec_option()])
def command(cell: str, output: Path, name: str, theme: str, specs: tuple[str, ...]) -> int:
    """Plot CELL as the page does: its runs, latencies, throughput or telemetry, or its committed results."""
    form = output.suffix.removeprefix(".").lower()
    if form not in FORMATS:
        raise ReconcilerError(f"{output}: a plot is written as {' or '.join(FORMATS)}", fix=f"-o {output.stem}.svg")
    source = RepositoryPage(*find_asked_cells(specs))
    found = source.find(cell)
    chart = Site(source).draw_chart(found, name)
    write_output(output.absolute(), draw_plot(chart, theme=theme, form=form, title=f"{found}: {chart.title}"))
    say(f"Wrote {output}: {chart.title.lower()}. {chart.summary}".rstrip())
    return IN_SYNC

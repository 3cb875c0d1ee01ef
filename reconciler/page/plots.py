"""Charts as pictures, drawn by matplotlib, which comes with the extra `page`. The same numbers give the same bytes.

Colours are those of Okabe and Ito, which the colour-blind can distinguish, and every curve differs in its shape, too.
"""

from __future__ import annotations

import io
import re
from typing import Any

from reconciler.errors import ReconcilerError
from reconciler.render.charts import Chart, Curve, Stroke
from reconciler.storage.escaping import escape_line

THEMES = ("light", "dark")
FORMATS = ("svg", "png")
_PALETTES = {
    "light": ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"),
    "dark": ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#d55e00"),
}
_INK = {"light": ("#1c2430", "#d9dee5", "#ffffff"), "dark": ("#e6eaf0", "#39424e", "#161b22")}  # text, grid, ground
_DASHES = ("-", "--", "-.", ":")
_SIZE = (7.2, 3.0)  # inches
_MOST_TICKS = 12
_COLOUR = re.compile(rb"(?<=: )#[0-9a-f]{6}\b")  # of a style


def draw_plot(chart: Chart, *, theme: str = "light", form: str = "svg", title: str = "") -> bytes:
    """``title``: above the plot, in a standalone file. Raises ReconcilerError without matplotlib."""
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        fix = "pip install 'mlperf-reconciler[page]'"
        raise ReconcilerError("plots are drawn by matplotlib, which is not installed", fix=fix) from error
    ink, grid, ground = _INK[theme]
    style = {"svg.fonttype": "none", "svg.hashsalt": "reconcile", "font.family": "sans-serif", "font.size": 9.0}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=_SIZE, facecolor=ground)
        figure.subplots_adjust(
            left=0.11, right=0.985, bottom=0.3 if _turns(chart) else 0.17, top=0.9 if title else 0.96
        )
        FigureCanvasAgg(figure)
        axes = figure.add_subplot(facecolor=ground)
        for number, curve in enumerate(chart.curves):
            _draw(axes, curve, number, _PALETTES[theme])
        _label(axes, chart, ink, grid, title)
        out = io.BytesIO()
        figure.savefig(out, format=form, dpi=144, metadata={"Date": None} if form == "svg" else {"Software": None})
    return out.getvalue()


def draw_themes(chart: Chart) -> dict[str, bytes]:
    """As SVG for each background: drawn once, then in other colours."""
    drawn = draw_plot(chart)
    names = dict(zip(_list_colours(THEMES[0]), _list_colours(THEMES[1]), strict=True))
    other = _COLOUR.sub(lambda found: names.get(found[0].decode(), found[0].decode()).encode(), drawn)
    return {THEMES[0]: drawn, THEMES[1]: other}


def _list_colours(theme: str) -> tuple[str, ...]:
    return (*_PALETTES[theme], *_INK[theme])


def _turns(chart: Chart) -> bool:
    """Long words below the axis are turned."""
    return max(map(len, chart.ticks), default=0) > 8


def _draw(axes: Any, curve: Curve, number: int, palette: tuple[str, ...]) -> None:
    across, up = [x for x, _ in curve.points], [y for _, y in curve.points]
    usual = {Stroke.POINTS: 0, Stroke.CROSSES: 1, Stroke.BOUND: 1}.get(curve.stroke, number)
    tone = usual if curve.tone is None else curve.tone
    look: dict[str, Any] = {"label": escape_line(curve.label) or "_", "color": palette[tone % len(palette)]}
    match curve.stroke:
        case Stroke.POINTS:
            axes.plot(across, up, linestyle="none", marker="o", markersize=6, **look)
        case Stroke.CROSSES:
            axes.plot(across, up, linestyle="none", marker="x", markersize=8, **look)
        case Stroke.BOUND:
            axes.plot(across, up, linestyle="--", linewidth=2, **look)
        case Stroke.LINE:
            axes.plot(across, up, linestyle=_DASHES[number % len(_DASHES)], linewidth=1.5, **look)


def _label(axes: Any, chart: Chart, ink: str, grid: str, title: str) -> None:
    """Escape a label: no text is taken for a formula."""
    axes.set_xlabel(escape_line(chart.across), color=ink, parse_math=False)
    axes.set_ylabel(escape_line(chart.up), color=ink, parse_math=False)
    if title:
        axes.set_title(escape_line(title), color=ink, parse_math=False)
    if chart.ticks:
        step = -(-len(chart.ticks) // _MOST_TICKS)
        places = range(0, len(chart.ticks), step)
        axes.set_xticks(list(places), [escape_line(chart.ticks[i]) for i in places], parse_math=False)
        if _turns(chart):
            axes.tick_params(axis="x", labelrotation=30)
    axes.tick_params(colors=ink)
    axes.grid(visible=True, color=grid, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.ticklabel_format(axis="y", useOffset=False, style="plain")
    for spine in axes.spines.values():
        spine.set_color(grid)
    handles, labels = axes.get_legend_handles_labels()
    if len([label for label in labels if not label.startswith("_")]) > 1:
        legend = axes.legend(handles, labels, frameon=False, labelcolor=ink, fontsize=8)
        for text in legend.get_texts():
            text.set_parse_math(False)

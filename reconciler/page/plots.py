"""Charts as Vega-Lite: the page passes them to the browser, which draws them interactively; `reconcile plot` writes
them as SVG or PNG. Vega comes with vl-convert, in the extra `page`.

The colours are those of Okabe and Ito, which colour-blind readers can distinguish, and curves also differ in shape.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
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
_INK = {"light": ("#1c2430", "#d9dee5", "#ffffff"), "dark": ("#e6eaf0", "#39424e", "#161b22")}  # text, grid, background
_DASHES = ([1, 0], [8, 4], [8, 3, 2, 3], [2, 3])
_SHAPES = ("circle", "square", "diamond", "triangle-up", "triangle-down", "triangle-right")
_SIZE = (660, 240)  # pixels of a file
_MOST_TICKS = 12
_LONG_MARK = 34  # characters of a label along a line
_LONG_TICK = 8  # characters; longer labels take a line for each word, or are rotated
_WIDE = 20  # times the smallest value: a larger span gets a logarithmic axis


def can_draw() -> bool:
    return find_spec("vl_convert") is not None


def draw_plot(chart: Chart, *, theme: str = "light", form: str = "svg", title: str = "") -> bytes:
    """Draw a file; the same numbers give the same bytes. ``title``: above the plot. Raises ReconcilerError without
    vl-convert."""
    vega = _load_converter()
    width, height = _SIZE
    spec = {**describe_plot(chart, alive=False), "width": width, "height": height, "title": escape_line(title)}
    tones = spec["usermeta"]["tones"]
    spec["encoding"]["color"]["scale"]["range"] = [_PALETTES[theme][tone] for tone in tones]
    if form == "png":
        return bytes(vega.vegalite_to_png(spec, config=describe_theme(theme), scale=2))
    return str(vega.vegalite_to_svg(spec, config=describe_theme(theme))).encode()


@cache
def bundle_script() -> bytes:
    """Bundle Vega, Vega-Lite and Vega-Embed as one script for a browser, with the global `vegaEmbed`. Takes seconds."""
    return str(_load_converter().javascript_bundle("window.vegaEmbed = vegaEmbed;")).encode()


def _load_converter() -> Any:
    try:
        import vl_convert
    except ImportError as error:
        fix = "pip install 'mlperf-reconciler[page]'"
        raise ReconcilerError("plots are drawn by vl-convert, which is not installed", fix=fix) from error
    return vl_convert


def describe_theme(theme: str) -> dict[str, Any]:
    """Return a Vega-Lite configuration."""
    ink, grid, ground = _INK[theme]
    axis = {"labelColor": ink, "titleColor": ink, "gridColor": grid, "domainColor": grid, "tickColor": grid}
    words = {"titleFontWeight": "normal", "labelFontSize": 11, "titleFontSize": 11}
    return {
        "background": ground,
        "font": "sans-serif",
        "axis": axis | words,
        "legend": {"labelColor": ink, "titleColor": ink, "labelFontSize": 11, "symbolStrokeWidth": 2},
        "title": {"color": ink, "fontSize": 13, "anchor": "start"},
        "view": {"stroke": None},
        "range": {"category": list(_PALETTES[theme])},
    }


def describe_plot(chart: Chart, *, alive: bool = True) -> dict[str, Any]:
    """Return a Vega-Lite specification; the renderer puts the colours of ``usermeta.tones`` into the scale. ``alive``:
    zoom with wheel and mouse, select a curve in the legend, and show a point's numbers."""
    names = [escape_line(curve.label) or f" {number}" for number, curve in enumerate(chart.curves)]
    layers = [_describe_layer(chart, curve, names[number], number) for number, curve in enumerate(chart.curves)]
    shown = [name for name, curve in zip(names, chart.curves, strict=True) if curve.label]
    legend = (
        {"title": None, "orient": "top", "values": shown, "symbolType": "circle", "labelLimit": 300}
        if len(shown) > 1
        else None
    )
    encoding: dict[str, Any] = {
        "x": _describe_axis_across(chart),
        "y": _describe_axis_up(chart),
        "color": {"field": "curve", "type": "nominal", "scale": {"domain": names, "range": []}, "legend": legend},
    }
    if alive and layers:
        layers[0]["params"] = [{"name": "seen", "select": "interval", "bind": "scales"}]
        if legend:
            picked = {"name": "picked", "select": {"type": "point", "fields": ["curve"]}, "bind": "legend"}
            layers[0]["params"].append(picked)
            encoding["opacity"] = {"condition": {"param": "picked", "value": 1}, "value": 0.12}
        encoding["tooltip"] = [
            {"field": "curve", "title": "curve"} if legend else None,
            {"field": "at", "title": escape_line(chart.across)},
            {"field": "y", "title": escape_line(chart.up), "format": ",.5~g"},
            {"field": "note", "title": "note"} if any(curve.notes for curve in chart.curves) else None,
        ]
        encoding["tooltip"] = [field for field in encoding["tooltip"] if field]
    layers += _describe_marks(chart, alive=alive)
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "description": escape_line(f"{chart.title}. {chart.summary}".strip()),
        "usermeta": {"tones": [_find_tone(curve, number) for number, curve in enumerate(chart.curves)]},
        "width": "container",
        "height": _SIZE[1],
        "autosize": {"type": "fit", "contains": "padding"},
        "encoding": encoding,
        "layer": layers,
    }


def _find_tone(curve: Curve, number: int) -> int:
    usual = {Stroke.POINTS: 0, Stroke.CROSSES: 1, Stroke.BOUND: 1}.get(curve.stroke, number)
    return (usual if curve.tone is None else curve.tone) % len(_PALETTES["light"])


def _describe_axis_across(chart: Chart) -> dict[str, Any]:
    axis: dict[str, Any] = {"title": escape_line(chart.across)}
    if chart.ticks:
        step = -(-len(chart.ticks) // _MOST_TICKS)
        axis["values"] = list(range(0, len(chart.ticks), step))
        axis["labelExpr"] = f"{json.dumps([escape_line(text).split() for text in chart.ticks])}[datum.value]"
        longest = max((len(word) for text in chart.ticks for word in text.split()), default=0)
        axis["labelAngle"] = -25 if longest > _LONG_TICK else 0
    else:
        axis["tickCount"] = _MOST_TICKS // 2
    return {
        "field": "x",
        "type": "quantitative",
        "axis": axis,
        "scale": {"zero": False, "nice": not chart.ticks, "padding": 8},
    }


def _describe_axis_up(chart: Chart) -> dict[str, Any]:
    values = [y for curve in chart.curves for _, y in curve.points]
    wide = min(values, default=0.0) > 0 and max(values) > _WIDE * min(values)
    scale: dict[str, Any] = {"type": "log"} if wide else {"zero": False}
    axis: dict[str, Any] = {"title": escape_line(chart.up), "tickCount": 5}
    if wide:
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        axis["values"] = [float(f"1e{power}") for power in range(low, high + 1)]
    return {"field": "y", "type": "quantitative", "axis": axis, "scale": scale}


def _describe_layer(chart: Chart, curve: Curve, name: str, number: int) -> dict[str, Any]:
    unseen = {"fillOpacity": 0, "strokeOpacity": 0, "filled": True, "size": 80}  # target for the pointer
    match curve.stroke:
        case Stroke.POINTS:
            mark: dict[str, Any] = {"type": "point", "filled": True, "size": 60}
            mark["shape"] = _SHAPES[_find_tone(curve, number)]
        case Stroke.CROSSES:
            mark = {"type": "point", "filled": True, "size": 110, "shape": "cross", "angle": 45}
        case Stroke.BOUND:
            mark = {"type": "line", "strokeDash": [6, 4], "strokeWidth": 2, "point": unseen}
        case Stroke.LINE:
            dashes = _DASHES[number % len(_DASHES)]
            mark = {"type": "line", "strokeDash": dashes, "strokeWidth": 1.5, "point": unseen}
    return {"data": {"values": list(_list_points(chart, curve, name))}, "mark": {**mark, "opacity": 1}}


def _describe_marks(chart: Chart, *, alive: bool) -> Iterator[dict[str, Any]]:
    """Draw a dotted line at each change, with the beginning of its text along it."""
    notes = [(x, escape_line(words)) for x, words in chart.marks]
    data = {"values": [{"x": x, "note": note, "words": note.partition(" (")[0][:_LONG_MARK]} for x, note in notes]}
    tooltip = {"field": "note"} if alive else {"value": None}
    shared = {"color": {"value": "#888"}, "opacity": {"value": 1}, "tooltip": tooltip, "y": {"value": 0}}
    if notes:
        line = {"type": "rule", "strokeDash": [2, 3]}
        yield {"data": data, "mark": line, "encoding": {**shared, "y2": {"value": "height"}}}
    if 0 < len(notes) <= _MOST_TICKS:
        text = {"type": "text", "angle": 270, "align": "right", "baseline": "bottom", "dy": -3, "fontSize": 10}
        yield {"data": data, "mark": text, "encoding": {**shared, "text": {"field": "words"}}}


def _list_points(chart: Chart, curve: Curve, name: str) -> Iterator[dict[str, Any]]:
    for number, (x, y) in enumerate(curve.points):
        at = chart.ticks[int(x)] if chart.ticks else f"{x:g}"
        point = {"curve": name, "x": x, "y": y, "at": escape_line(at)}
        yield {**point, "note": escape_line(curve.notes[number])} if curve.notes else point

"""A curve of MLPerf Endpoints on the page: its regions with their gaps, its points, its plots, and its row of the
matrix; and charts of several curves. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from importlib.resources import files

from reconciler.diff.timeline import CurvePoint
from reconciler.endpoints.rules.pareto import ParetoCurve, trace_steps
from reconciler.render.charts import Chart, Curve, Stroke, find_curve
from reconciler.render.documents import Document
from reconciler.resource.kinds import name_point
from reconciler.resource.quantities import join_listing, show_count, show_rate

PARETO, TTFT, SCALING = "pareto", "ttft", "scaling"
CHARTS: tuple[str, ...] = (PARETO, TTFT, SCALING)


def read_template() -> str:
    """Read the template of the view of a curve."""
    return (files(__package__) / "curve.html").read_text(encoding="utf-8")


def read_pareto(curve: Document) -> ParetoCurve:
    points = tuple(
        CurvePoint(
            point["concurrency"],
            Decimal(point["per_user"]),
            Decimal(point["system_tps"]),
            None if point["ttft_p90_ms"] is None else Decimal(point["ttft_p90_ms"]),
        )
        for point in curve["points"]
    )
    ceiling = None if curve["ceiling"] is None else Decimal(curve["ceiling"])
    return ParetoCurve(points, ceiling, frozenset(curve["dominated"]), curve["agentic"])


def draw_curve(curve: Document) -> tuple[Chart, ...]:
    """Return no charts if no point is measured."""
    pareto = {curve["curve"]: read_pareto(curve)}
    return tuple(chart_curves(name, pareto) for name in CHARTS) if curve["points"] else ()


def arrange_curve(document: Document, name: str) -> Document:
    """Arrange the view of a curve. ``document``: the matrix document."""
    curve = find_curve(document, name)
    entries = {entry["cell"]: entry for entry in document["cells"]}
    pareto = read_pareto(curve)
    drawn = {point.concurrency: point for point in pareto.points}
    cells = [(number, f"{name}/{name_point(number)}") for number in curve["declared"]]
    ceiling = curve["ceiling"]
    rate = "not measured yet" if ceiling is None else f"{show_rate(float(ceiling))} tokens/s"
    return {
        "title": name,
        "curve": curve,
        "looked": document["looked"],
        "bands": [_arrange_band(band) for band in curve["bands"]],
        "rows": [_arrange_row(number, cell, entries.get(cell), drawn.get(number), curve) for number, cell in cells],
        "offline": {"cell": f"{name}/{name_point(curve['offline'])}", "rate": rate} if curve["offline"] else None,
        "user_rate": name_user_rate([pareto]).capitalize(),
        "charts": draw_curve(curve),
        "denser": join_listing(map(str, curve["denser"])) if curve["denser"] else "",
        "marks": list(dict.fromkeys(m for _, cell in cells if cell in entries for m in entries[cell]["marks"])),
    }


def _arrange_band(band: Document) -> Document:
    missing = [point for point in band["declared"] if point not in band["measured"]]
    if not band["declared"]:
        kind, word = "no", "no point"
    elif missing:
        kind, word = "maybe", f"not measured: {join_listing(map(str, missing))}"
    else:
        kind, word = "ok", "measured"
    return {**band, "points": join_listing(map(str, band["declared"]), most=12), "kind": kind, "word": word}


def _arrange_row(number: int, cell: str, entry: Document | None, point: CurvePoint | None, curve: Document) -> Document:
    bands = [band["title"] for band in curve["bands"] if number in band["declared"]]
    return {
        "concurrency": number,
        "cell": cell,
        "bands": ", ".join(bands),
        "rate": show_rate(float(point.system_tps)) if point else "",
        "per_user": show_rate(float(point.per_user)) if point else "",
        "ttft": show_rate(float(point.ttft_p90_ms)) if point and point.ttft_p90_ms is not None else "",
        "beaten": number in curve["dominated"],
        "state": "" if entry is None else "ready" if entry["ready"] else "due",
        "validity": entry["validity"] if entry is not None else "",
    }


def sum_up_curve(curve: Document, rows: Sequence[Document]) -> Document:
    """Return the curve's mark in the matrix. ``rows``: the rows of its points."""
    rates = [float(point["system_tps"]) for point in curve["points"]]
    rates += [float(curve["ceiling"])] if curve["ceiling"] is not None else []
    gaps = [band["title"] for band in curve["bands"] if not band["measured"]]
    others = [row["state"] for row in rows if row["state"] != "ready"]
    notes = [f"{len(curve['measured'])} of {show_count(len(curve['declared']), 'point')}"]
    notes += [f"nothing measured in {join_listing(gaps)}"] if gaps else []
    return {
        "curve": curve["curve"],
        "state": max(others, key=others.count) if others else "ready",
        "metric": f"at most {show_rate(max(rates))} tokens/s" if rates else "",
        "steps": sum(row["steps"] for row in rows),
        "notes": "; ".join(notes),
    }


def chart_curves(name: str, curves: Mapping[str, ParetoCurve]) -> Chart:
    """Draw one chart of ``curves``, which are named by their labels. ``name``: one of CHARTS."""
    if name == PARETO:
        return _chart_pareto(curves)
    if name == TTFT:
        return _chart_over(name, "TTFT P90 over concurrency", "ms", curves, lambda point: point.ttft_p90_ms)
    title = "System throughput over concurrency"
    return _chart_over(name, title, "tokens/s", curves, lambda point: point.system_tps)


def _chart_pareto(curves: Mapping[str, ParetoCurve]) -> Chart:
    """Draw a line of steps over the points that no other point beats, never interpolated, like the official visualiser.
    Beaten points are crosses, and a dedicated Offline run is a ceiling."""
    drawn: list[Curve] = []
    for tone, (label, curve) in enumerate(curves.items()):
        kept = [p for p in curve.points if p.concurrency not in curve.dominated]
        beaten = [p for p in curve.points if p.concurrency in curve.dominated]
        drawn.append(Curve(label, trace_steps(_list_places(kept)), tone=tone))
        drawn.append(Curve(_name_part(label, "points", curves), _list_places(kept), Stroke.POINTS, tone))
        if beaten:
            drawn.append(Curve(_name_part(label, "dominated", curves), _list_places(beaten), Stroke.CROSSES, tone))
        if curve.ceiling is not None and curve.points:
            users = [float(point.per_user) for point in curve.points]
            ceiling = tuple((x, float(curve.ceiling)) for x in (min(users), max(users)))
            drawn.append(Curve(_name_part(label, "Offline", curves), ceiling, Stroke.BOUND, tone))
    return _make_chart(PARETO, "Pareto curve", name_user_rate(curves.values()), "system tokens/s", drawn, curves)


def name_user_rate(curves: Iterable[ParetoCurve]) -> str:
    return "tokens/s across completed turns" if any(curve.agentic for curve in curves) else "tokens/s per user"


def _make_chart(
    name: str, title: str, across: str, up: str, drawn: Iterable[Curve], curves: Mapping[str, ParetoCurve]
) -> Chart:
    rate = name_user_rate(curves.values()).capitalize()
    columns = "Curve", "Concurrency", rate, "Tokens/s", "TTFT P90 in ms", "Dominated"
    return Chart(name, title, across, up, tuple(drawn), columns, _list_rows(curves), _sum_up(curves))


def _chart_over(
    name: str,
    title: str,
    unit: str,
    curves: Mapping[str, ParetoCurve],
    get: Callable[[CurvePoint], Decimal | None],
) -> Chart:
    """Draw a value of each point that has it, over its concurrency."""
    drawn: list[Curve] = []
    for tone, (label, curve) in enumerate(curves.items()):
        found = sorted((point.concurrency, value) for point in curve.points if (value := get(point)) is not None)
        places = tuple((float(concurrency), float(value)) for concurrency, value in found)
        drawn.append(Curve(label, trace_steps(places), tone=tone))
        drawn.append(Curve(_name_part(label, "points", curves), places, Stroke.POINTS, tone))
    return _make_chart(name, title, "concurrency", unit, drawn, curves)


def _name_part(label: str, what: str, curves: Mapping[str, ParetoCurve]) -> str:
    return what if len(curves) == 1 else f"{label}, {what}"


def _list_places(points: list[CurvePoint]) -> tuple[tuple[float, float], ...]:
    return tuple((float(point.per_user), float(point.system_tps)) for point in points)


def _list_rows(curves: Mapping[str, ParetoCurve]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            label,
            str(point.concurrency),
            show_rate(float(point.per_user)),
            show_rate(float(point.system_tps)),
            "" if point.ttft_p90_ms is None else f"{point.ttft_p90_ms:.4g}",
            "yes" if point.concurrency in curve.dominated else "",
        )
        for label, curve in curves.items()
        for point in curve.points
    )


def _sum_up(curves: Mapping[str, ParetoCurve]) -> str:
    parts = []
    for label, curve in curves.items():
        beaten = f", {len(curve.dominated)} of them dominated" if curve.dominated else ""
        offline = f"; Offline {show_rate(float(curve.ceiling))}" if curve.ceiling is not None else ""
        most = f"at most {show_rate(float(curve.peak))} tokens/s"
        parts.append(f"{label}: {len(curve.points)} points{beaten}, {most}{offline}")
    return ". ".join(parts) + "."

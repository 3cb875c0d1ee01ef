"""Charts of Endpoints curves: the official step function and the latency per user, of one curve or several. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from reconciler.diff.timeline import CurvePoint
from reconciler.endpoints.rules.pareto import ParetoCurve, trace_over_concurrency, trace_steps
from reconciler.render.charts import Chart, Curve, Stroke
from reconciler.resource.quantities import show_rate

PARETO, TTFT, SCALING = "pareto", "ttft", "scaling"
CURVE_CHARTS = (PARETO, TTFT, SCALING)


def chart_curves(name: str, curves: Mapping[str, ParetoCurve]) -> Chart:
    """Draw one chart of ``curves``, by label. ``name``: one of CURVE_CHARTS."""
    if name == PARETO:
        return _chart_pareto(curves)
    if name == TTFT:
        return _chart_over(name, "TTFT P90 over concurrency", "ms", {n: _ttft(c) for n, c in curves.items()}, curves)
    rates = {n: tuple((p.concurrency, p.system_tps) for p in c.points) for n, c in curves.items()}
    return _chart_over(name, "System throughput over concurrency", "tokens/s", rates, curves)


def _chart_pareto(curves: Mapping[str, ParetoCurve]) -> Chart:
    """Draw a line of steps over the points that no other beats, like the official visualiser, never interpolated; the
    beaten ones are crosses, and a dedicated Offline run is a ceiling."""
    drawn: list[Curve] = []
    for tone, (label, curve) in enumerate(curves.items()):
        kept = [p for p in curve.points if p.concurrency not in curve.dominated]
        beaten = [p for p in curve.points if p.concurrency in curve.dominated]
        drawn.append(Curve(label, _floats(trace_steps(kept)), tone=tone))
        drawn.append(Curve(_named(label, "points", curves), _places(kept), Stroke.POINTS, tone))
        if beaten:
            drawn.append(Curve(_named(label, "dominated", curves), _places(beaten), Stroke.CROSSES, tone))
        if curve.ceiling is not None and curve.points:
            users = [float(point.per_user) for point in curve.points]
            ceiling = tuple((x, float(curve.ceiling)) for x in (min(users), max(users)))
            drawn.append(Curve(_named(label, "Offline", curves), ceiling, Stroke.BOUND, tone))
    across, rows, summary = name_user_rate(curves.values()), _rows(curves), _sum_up(curves)
    return Chart(PARETO, "Pareto curve", across, "system tokens/s", tuple(drawn), _columns(curves), rows, summary)


def name_user_rate(curves: Iterable[ParetoCurve]) -> str:
    return "tokens/s across completed turns" if any(curve.agentic for curve in curves) else "tokens/s per user"


def _columns(curves: Mapping[str, ParetoCurve]) -> tuple[str, ...]:
    rate = name_user_rate(curves.values()).capitalize()
    return "Curve", "Concurrency", rate, "Tokens/s", "TTFT P90 in ms", "Dominated"


def _chart_over(
    name: str,
    title: str,
    unit: str,
    values: Mapping[str, tuple[tuple[int, Decimal], ...]],
    curves: Mapping[str, ParetoCurve],
) -> Chart:
    drawn: list[Curve] = []
    for tone, (label, found) in enumerate(values.items()):
        drawn.append(Curve(label, _floats(trace_over_concurrency(found)), tone=tone))
        places = tuple((float(concurrency), float(value)) for concurrency, value in sorted(found))
        drawn.append(Curve(_named(label, "points", curves), places, Stroke.POINTS, tone))
    return Chart(name, title, "concurrency", unit, tuple(drawn), _columns(curves), _rows(curves), _sum_up(curves))


def _ttft(curve: ParetoCurve) -> tuple[tuple[int, Decimal], ...]:
    return tuple((p.concurrency, p.ttft_p90_ms) for p in curve.points if p.ttft_p90_ms is not None)


def _named(label: str, what: str, curves: Mapping[str, ParetoCurve]) -> str:
    return what if len(curves) == 1 else f"{label}, {what}"


def _floats(corners: tuple[tuple[Decimal, Decimal], ...]) -> tuple[tuple[float, float], ...]:
    return tuple((float(x), float(y)) for x, y in corners)


def _places(points: list[CurvePoint]) -> tuple[tuple[float, float], ...]:
    return tuple((float(point.per_user), float(point.system_tps)) for point in points)


def _rows(curves: Mapping[str, ParetoCurve]) -> tuple[tuple[str, ...], ...]:
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
        parts.append(
            f"{label}: {len(curve.points)} points{beaten}, at most {show_rate(float(curve.peak))} tokens/s{offline}"
        )
    return ". ".join(parts) + "."

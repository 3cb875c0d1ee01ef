"""Plots of a cell as numbers: drawn by ``plots``, with the same numbers as a table below. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import TypeVar

from msgspec.structs import replace

from reconciler.render.charts import Chart, Curve, Stroke
from reconciler.render.documents import Document
from reconciler.resource.quantities import show_rate
from reconciler.resource.wording import shorten_value, show_value

_Row = TypeVar("_Row")
_QUANTITIES = {"watts": ("power", "Power", "W"), "mhz": ("clocks", "Clocks", "MHz")} | {
    "celsius": ("temperature", "Temperature", "°C"),
    "percent": ("load", "Load", "%"),
}
CHARTS = (
    "runs",
    "efficiency",
    "latency",
    "first-token",
    "per-token",
    "throughput",
    *(name for name, _, _ in _QUANTITIES.values()),
    "history",
)
_MOST_ROWS = 40  # rows of the table below a plot


def draw_charts(document: Document) -> tuple[Chart, ...]:
    """Draw the charts for which the document of a cell has numbers: runs, latency, throughput, power, clocks and so
    on."""
    performance = document["performance"] or {}
    series = performance.get("series") or []
    found = [
        *_chart_runs(document),
        *_chart_efficiency(document),
        *_chart_latencies(performance),
        *_chart_throughput(series),
        *_chart_readings(series),
    ]
    return tuple(found)


def _chart_runs(document: Document) -> Iterator[Chart]:
    runs = [run for run in document["runs"] if run["performance"] and run["metric"] and _read_number(run) is not None]
    if not runs:
        return
    unit = runs[-1]["metric"]["unit"]
    places = [(float(i), _read_number(run) or 0.0, run) for i, run in enumerate(runs)]
    curves = _make_result_curves([(x, y, run["validity"]) for x, y, run in places])
    changes = [describe_changes(run) for run in runs]
    inputs = ["as declared now" if run["same"] else "earlier" for run in runs]
    yield Chart(
        "runs",
        "Runs over time",
        "oldest to newest",
        unit,
        curves,
        ("Started", "Result", "Validity", "Inputs", "Changed", "Record"),
        tuple(
            (r["started"][:19], r["metric"]["value"], r["validity"], declared, changed, r["record"])
            for r, declared, changed in zip(runs, inputs, changes, strict=True)
        ),
        describe_spread(document["runs"]),
        tuple(run["started"][5:16].replace("T", " ") for run in runs),
        tuple((float(x), changed) for x, changed in enumerate(changes) if changed),
    )


def describe_changes(run: Document) -> str:
    """Return "batch_size 8 → 16 (3f2c1ab); driver 550 → 560": the changes since the previous run."""
    return "; ".join(dict.fromkeys(map(_describe_change, run["changes"])))


def _describe_change(cause: Document) -> str:
    name = cause["name"].removesuffix(".digest").removesuffix(".sha256")
    before, after = (shorten_value(show_value(cause["name"], cause[side]), 20) for side in ("before", "after"))
    values = f" {before} → {after}" if name == cause["name"] else " changed"
    return f"{name}{values}" + (f" ({cause['by']['commit'][:7]})" if cause["by"] else "")


def overlay(charts: Sequence[Chart], others: Sequence[Chart], names: tuple[str, str]) -> tuple[Chart, ...]:
    """Overlay the same charts of another run, as far as both runs have them. ``names``: the names of the two runs."""
    found = {chart.name: chart for chart in others}
    return tuple(_lay_over(chart, found[chart.name], names) if chart.name in found else chart for chart in charts)


def _lay_over(chart: Chart, other: Chart, names: tuple[str, str]) -> Chart:
    if chart.ticks != other.ticks:
        return chart
    usual = {"latency", chart.up}  # name of the only curve of a chart
    named = [
        [
            replace(curve, label=name if curve.label in usual else curve.label and f"{curve.label}, {name}")
            for curve in each.curves
            if curve.stroke is not Stroke.BOUND
        ]
        for each, name in zip((chart, other), names, strict=True)
    ]
    lines = sum(curve.stroke is Stroke.LINE for curve in named[0])
    theirs = (replace(curve, tone=lines + 1 + number // 2) for number, curve in enumerate(named[1]))
    bounds = (curve for curve in chart.curves if curve.stroke is Stroke.BOUND)
    said = (f"{name}: {each.summary}" for name, each in zip(names, (chart, other), strict=True) if each.summary)
    return replace(chart, curves=(*named[0], *theirs, *bounds), summary=" ".join(said))


def _chart_efficiency(document: Document) -> Iterator[Chart]:
    """Chart the runs whose power was measured."""
    runs = [run for run in document["runs"] if run["efficiency"] and _is_number(run["efficiency"]["value"])]
    if not runs:
        return
    unit = runs[-1]["efficiency"]["unit"]
    places = [(float(i), float(run["efficiency"]["value"]), run["validity"]) for i, run in enumerate(runs)]
    yield Chart(
        "efficiency",
        "Efficiency over time",
        "oldest to newest",
        unit,
        _make_result_curves(places),
        ("Started", "Efficiency", "Result", "Validity", "Record"),
        tuple((r["started"][:19], r["efficiency"]["value"], _show_result(r), r["validity"], r["record"]) for r in runs),
        f"From {min(y for _, y, _ in places):g} to {max(y for _, y, _ in places):g} {unit}.",
        tuple(run["started"][5:16].replace("T", " ") for run in runs),
    )


def _show_result(run: Document) -> str:
    return f"{run['metric']['value']} {run['metric']['unit']}" if run["metric"] else ""


def chart_history(document: Document) -> Chart | None:
    """Chart every committed performance run of a cell."""
    found = [r for r in document["results"] if r["what"] == "Run performance" and _is_number(r["value"])]
    if not found:
        return None
    places = [(float(i), float(r["value"]), r) for i, r in enumerate(found)]
    causes = {step["after"]["record"]: step["causes"] for step in document["steps"]}
    changes = [describe_changes({"changes": causes.get(r["record"], ())}) for r in found]
    return Chart(
        "history",
        "Results over commits",
        "commit that brought the record, oldest to newest",
        found[-1]["unit"],
        _make_result_curves([(x, y, r["validity"]) for x, y, r in places]),
        ("Commit", "Started", "Result", "Validity"),
        tuple((r["written"]["commit"][:10], r["started"][:19], r["value"], r["validity"]) for r in found),
        ticks=tuple(r["written"]["commit"][:7] for r in found),
        marks=tuple((float(x), changed) for x, changed in enumerate(changes) if changed),
    )


def _make_result_curves(places: Sequence[tuple[float, float, str]]) -> tuple[Curve, ...]:
    """Return a line through all points, and points with one shape per verdict."""
    curves = [Curve("", tuple((x, y) for x, y, _ in places))] if len(places) > 1 else []
    for label, stroke, invalid in (("valid", Stroke.POINTS, False), ("INVALID", Stroke.CROSSES, True)):
        points = tuple((x, y) for x, y, validity in places if (validity == "INVALID") is invalid)
        curves += [Curve(label, points, stroke)] if points else []
    return tuple(curves)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _read_number(run: Document) -> float | None:
    value = run["metric"]["value"]
    return float(value) if _is_number(value) else None


def describe_spread(runs: Sequence[Document]) -> str:
    """Describe the spread of the valid performance runs with the current inputs: their difference is noise."""
    same = [
        run for run in runs if run["performance"] and run["same"] and run["metric"] and run["validity"] != "INVALID"
    ]
    values = [value for run in same if (value := _read_number(run)) is not None]
    if not values:
        return ""
    unit = same[-1]["metric"]["unit"]
    if len(values) == 1:
        return f"One valid run with these inputs: {show_rate(values[0])} {unit}."
    low, high, middle = min(values), max(values), statistics.median(values)
    noise = statistics.stdev(values) / statistics.fmean(values) if statistics.fmean(values) else 0.0
    spread = (high - low) / middle if middle else 0.0
    between = f"{show_rate(low)} to {show_rate(high)} {unit}, median {show_rate(middle)}"
    differ = f"spread {spread:.1%}, noise {noise:.1%} (standard deviation)"
    return f"{len(values)} valid runs with these inputs: {between}; {differ}."


_LATENCIES = {
    "latency": ("latency", "Latency by percentile"),
    "TTFT": ("first-token", "Time to first token by percentile"),
    "TPOT": ("per-token", "Time per output token by percentile"),
}


def _chart_latencies(performance: Document) -> Iterator[Chart]:
    """Chart latencies. For a language model, chart the latencies of tokens, which the rules limit, and not those of
    whole answers."""
    measured = {
        what: [(p, ms) for found, p, ms in performance.get("percentiles") or () if found == what] for what in _LATENCIES
    }
    for what, percentiles in measured.items():
        if percentiles and (what != "latency" or not (measured["TTFT"] or measured["TPOT"])):
            yield _chart_latency(
                *_LATENCIES[what], percentiles, _read_bound((performance.get("bounds") or {}).get(what))
            )


def _chart_latency(name: str, title: str, percentiles: Sequence[tuple[str, float]], bound: float | None) -> Chart:
    points = tuple((float(i), value) for i, (_, value) in enumerate(percentiles))
    curves = [Curve("latency", points), Curve("", points, Stroke.POINTS)]
    if bound is not None:
        curves.append(Curve("bound", ((0.0, bound), (float(len(points) - 1), bound)), Stroke.BOUND))
    ends = {"0": "lowest", "100": "highest"}
    named = tuple(ends.get(rank, f"{float(rank):g}") for rank, _ in percentiles)
    against = f" against a bound of {bound:g} ms" if bound is not None else ""
    return Chart(
        name,
        title,
        "percentile",
        "ms",
        tuple(curves),
        ("Percentile", "Latency in ms"),
        tuple((rank, f"{value:.6g}") for rank, (_, value) in zip(named, percentiles, strict=True)),
        f"From {percentiles[0][1]:.4g} ms to {percentiles[-1][1]:.4g} ms{against}.",
        named,
    )


def _read_bound(bound: Document | None) -> float | None:
    """Return the limit in ms."""
    scale = {"s": 1000.0, "ms": 1.0, "us": 1e-3, "µs": 1e-3, "ns": 1e-6}.get(str(bound.get("unit"))) if bound else None
    try:
        return float(bound["limit"]) * scale if bound and scale else None
    except (ValueError, TypeError):
        return None


def _chart_throughput(series: Sequence[Document]) -> Iterator[Chart]:
    points = [
        (after["seconds"], (after["done"] - before["done"]) / (after["seconds"] - before["seconds"]))
        for before, after in zip([{"seconds": 0.0, "done": 0.0}, *series], series, strict=False)
        if "done" in after and "done" in before and after["seconds"] > before["seconds"]
    ]
    if len(points) < 2:
        return
    rates = [rate for _, rate in points]
    yield Chart(
        "throughput",
        "Throughput over the run",
        "seconds since the run began",
        "samples/s",
        (Curve("samples/s", tuple(points)),),
        ("Second", "Samples/s"),
        tuple((f"{x:.1f}", show_rate(y)) for x, y in _thin_out(points)),
        f"Between {show_rate(min(rates))} and {show_rate(max(rates))} samples/s.",
    )


def _chart_readings(series: Sequence[Document]) -> Iterator[Chart]:
    """Chart each quantity; readings of the same unit share a chart."""
    names = [name for name in dict.fromkeys(name for row in series for name in row) if name not in ("seconds", "done")]
    for suffix, (chart, title, unit) in _QUANTITIES.items():
        chosen = [name for name in names if name.endswith(suffix)]
        curves = [Curve(_name_series(n, suffix), tuple((r["seconds"], r[n]) for r in series if n in r)) for n in chosen]
        curves = [curve for curve in curves if len(curve.points) > 1]
        if not curves:
            continue
        kept = _thin_out(series)
        rows = tuple((f"{r['seconds']:.1f}", *(f"{r[n]:g}" if n in r else "" for n in chosen)) for r in kept)
        columns = ("Second", *(f"{_name_series(n, suffix)} in {unit}" for n in chosen))
        yield Chart(chart, f"{title} during the run", "seconds since the run began", unit, tuple(curves), columns, rows)


def _name_series(name: str, suffix: str) -> str:
    """Return "GPU power" for "gpu.power_watts"."""
    text = name.removesuffix(suffix).strip("_").replace("_", " ")
    return text.replace("gpu.", "GPU ") if text.startswith("gpu.") else f"processor {text}".strip()


def name_reading(name: str) -> tuple[str, str]:
    """Return ("GPU power", "W") for "gpu.power_watts", and so on for every reading of a run."""
    units = {suffix: unit for suffix, (_, _, unit) in _QUANTITIES.items()} | {"seconds": "s", "bytes": ""}
    suffix = next((suffix for suffix in units if name.endswith(f"_{suffix}")), None)
    if suffix is None:
        return name.replace("_", " "), ""
    return ("memory", "") if name == "memory_bytes" else (_name_series(name, suffix), units[suffix])


def _thin_out(rows: Sequence[_Row]) -> Sequence[_Row]:
    return rows[:: max(1, -(-len(rows) // _MOST_ROWS))]

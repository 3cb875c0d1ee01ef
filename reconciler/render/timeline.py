"""History, blame, differences and comparisons as text; their values are in ``diff.timeline``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reconciler.diff.timeline import (
    CellChange,
    ChangeCause,
    CurvePair,
    MeasuredValue,
    ResultComparison,
    Side,
    TimelineStep,
)
from reconciler.render.colour import Paint, show_plain
from reconciler.render.documents import convert_number, convert_plain_value, render_document
from reconciler.render.table import render_table
from reconciler.resource.kinds import Cell
from reconciler.resource.quantities import join_listing, show_count, show_rate
from reconciler.resource.wording import shorten_value, show_value

_NOTHING = "nothing to compare: no benchmark and scenario in both"
_HEIGHT, _MOST = 8, 60  # lines of a plot, and points in it
_LABELS = 40  # columns of the labels on both sides


def render_history_text(cell: Cell, results: Sequence[MeasuredValue], paint: Paint = show_plain) -> str:
    rows = [
        [
            item.started[:16].replace("T", " "),
            item.written.commit[:7],
            item.what,
            f"{item.value} {item.unit}".strip(),
            item.validity,
            ", ".join([*item.marks, *([] if item.kept else ["no longer recorded"])]),
        ]
        for item in results
    ]
    runs = [item for item in results if item.what == "Run performance"]
    points = [(item.number, item.validity) for item in runs if item.number is not None]
    plot = plot_text(points, runs[0].unit, paint.width) if runs else ""
    return "\n".join([str(cell), *render_table(rows, 2, width=paint.width), *(["", plot] if plot else [])])


def render_blame_text(cell: Cell, steps: Sequence[TimelineStep], paint: Paint = show_plain) -> str:
    lines = [str(cell)]
    for step in steps:
        change = f"{step.change:+.1%}" if step.change is not None else "?"
        values = f"{step.before.value} → {step.after.value} {step.after.unit}".strip()
        lines.append(f"  {step.after.started[:16].replace('T', ' ')}  {step.after.what}  {values}  {change}".rstrip())
        lines += render_table(map(_render_blame_row, step.causes), 4, width=paint.width, is_last_loose=True)
        if not step.causes:
            lines.append("    the same inputs and evidence, measured again")
    return "\n".join(lines if steps else [*lines, "  measured at most once: nothing to blame"])


def _render_blame_row(cause: ChangeCause) -> list[str]:
    by = "not committed" if ":" in cause.where else ""
    if cause.by:
        by = f"{cause.by.commit[:7]}  {cause.by.author}  {cause.by.subject}"
    return [cause.of, cause.name, _show_change(cause), "  ".join(filter(None, (cause.where, by)))]


def _show_change(cause: ChangeCause) -> str:
    """Show the change between two lists of words, such as commands: only words in one of them."""
    before, after = cause.before, cause.after
    if isinstance(before, (list, tuple)) and isinstance(after, (list, tuple)):
        gone, new = [word for word in before if word not in after], [word for word in after if word not in before]
        if gone or new:
            return f"{' '.join(map(str, gone)) or 'nothing'} → {' '.join(map(str, new)) or 'nothing'}"
    return f"{_show_short_value(cause.name, before)} → {_show_short_value(cause.name, after)}"


def _show_short_value(name: str, value: Any) -> str:
    return "none" if value is None else shorten_value(show_value(name, value), 40)


def render_changes_text(names: tuple[str, str], changes: Sequence[CellChange], paint: Paint = show_plain) -> str:
    lines = [f"{names[0][:12]}..{names[1][:12]}"]
    for item in changes:
        if item.same:
            continue
        lines.append(str(item.cell) + {(True, False): "  removed", (False, True): "  added"}.get(item.declared, ""))
        rows = [(cause.of, cause.name, _show_change(cause), cause.where) for cause in item.causes]
        lines += render_table(rows, 2, width=paint.width)
        if item.before != item.after:
            lines.append(f"  result  {_show_metric(item.before)} → {_show_metric(item.after)}")
        if item.due:
            lines.append(f"  not recorded yet: {', '.join(item.due)}")
    same = sum(1 for item in changes if item.same)
    return "\n".join([*lines, f"{len(changes) - same} of {len(changes)} cells differ."])


def _show_metric(metric: tuple[str, str] | None) -> str:
    return " ".join(metric) if metric else "none"


def render_comparison_text(found: ResultComparison, paint: Paint = show_plain) -> str:
    head = ["benchmark", "scenario", " → ".join(found.names), "ratio", "per accelerator", ""]
    several = len({(_show_place(pair.one), _show_place(pair.other)) for pair in found.pairs}) > 1
    rows = [
        [
            *([" / ".join(dict.fromkeys((_show_place(pair.one), _show_place(pair.other))))] if several else []),
            pair.one.cell.benchmark,
            pair.one.cell.scenario,
            _show_values(pair.one, pair.other),
            _show_ratio(pair.ratio),
            _show_ratio(pair.per_accelerator),
            " → ".join(dict.fromkeys(filter(None, map(_show_details, (pair.one, pair.other))))),
        ]
        for pair in found.pairs
    ]
    table = [["system", *head] if several else head, *rows]
    lines = render_table(table, width=paint.width, is_last_loose=True) if rows else [_NOTHING]
    for name, cells in found.stale.items():
        lines += [f"stale in {name}, not compared:", *(f"  {cell}" for cell in cells)] if cells else []
    for name, cells in found.alone.items():
        shown = (f"  {cell}{' INVALID' if cell in found.invalid else ''}" for cell in cells)
        lines += [f"only in {name}:", *shown] if cells else []
    return "\n".join([*lines, *(line for curve in found.curves for line in _compare_curves(curve, found.names))])


def _compare_curves(pair: CurvePair, names: tuple[str, str]) -> Iterator[str]:
    """Compare curves: the maximum of each, and the points of each that the other curve beats on both axes."""
    yield f"Curve {' / '.join(dict.fromkeys(pair.curves))}:"
    before, after = (show_rate(float(peak)) for peak in pair.peaks)
    yield f"  at most {before} tokens/s → {after} tokens/s ({_show_ratio(pair.ratio)})"
    for at, count in enumerate(pair.points):
        beaten = pair.beaten[at]
        which = f": {join_listing(list(map(str, beaten)), most=12)}" if beaten else ""
        best = f"the {show_count(count, 'undominated point')} of {names[at]}"
        yield f"  {names[1 - at]} beats {len(beaten)} of {best}{which}"


def _show_place(side: Side) -> str:
    return f"{side.cell.division}/{side.cell.system}"


def _show_values(one: Side, other: Side) -> str:
    unit = "" if one.unit == other.unit else f" {one.unit}"
    marks = [" INVALID" if side.validity == "INVALID" else "" for side in (one, other)]
    return f"{one.value}{unit}{marks[0]} → {other.value} {other.unit}{marks[1]}"


def _show_details(side: Side) -> str:
    """Show its accelerators, its headroom, and the other values of a point of a curve."""
    texts = [f"on {side.count}"] if side.count else []
    texts += [f"headroom {side.headroom} %"] if side.headroom else []
    if side.point is not None:
        texts.append(f"{show_rate(float(side.point.per_user))} a user")
        ttft = side.point.ttft_p90_ms
        texts += [f"TTFT P90 {show_rate(float(ttft))} ms"] if ttft is not None else []
    return ", ".join(texts)


def _show_ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.3f}"


def plot_text(points: Sequence[tuple[float, str]], unit: str, width: int | None) -> str:
    """Plot one column per recent result, given with its validity: x for an INVALID one, else o. Empty for fewer than
    two."""
    most = _MOST if width is None else min(_MOST, (width - _LABELS) // 2)
    shown = points[-most:]
    if len(shown) < 2:
        return ""
    low, high = min(shown)[0], max(shown)[0]
    span = high - low or 1.0
    rows = [[" "] * len(shown) for _ in range(_HEIGHT)]
    for column, (value, validity) in enumerate(shown):
        row = _HEIGHT - 1 - round((value - low) / span * (_HEIGHT - 1))
        rows[row][column] = "x" if validity == "INVALID" else "o"
    labels = {0: f"{high:,.6g}", _HEIGHT - 1: f"{low:,.6g}"}
    width = max(map(len, labels.values()))
    lines = [f"{labels.get(number, ''):>{width}} | {' '.join(row)}".rstrip() for number, row in enumerate(rows)]
    return "\n".join([*lines, f"{'':>{width}} +-{'-' * (2 * len(shown))}  {unit}, oldest to newest"])


def _render_side(side: Side) -> dict[str, Any]:
    return {**convert_plain_value(side), "headroom": convert_number(side.headroom)}


def report_comparison(found: ResultComparison) -> dict[str, Any]:
    """Return the comparison for ``--json`` and for the page."""
    pairs = [
        {
            "one": _render_side(pair.one),
            "other": _render_side(pair.other),
            "ratio": pair.ratio,
            "per_accelerator": pair.per_accelerator,
        }
        for pair in found.pairs
    ]
    curves = [{**convert_plain_value(curve), "ratio": curve.ratio} for curve in found.curves]
    own = {"alone": found.alone, "stale": found.stale, "invalid": found.invalid}
    return render_document("compare", names=found.names, pairs=pairs, curves=curves, **own)

"""Cells x conditions as a table that is readable without colour: ok, no, ?."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from reconciler.execute.outcome import QueuedStep
from reconciler.render.colour import Paint, Tone, show_plain
from reconciler.render.plan import LIMIT
from reconciler.render.table import measure, render_table
from reconciler.resource.conditions import CONDITIONS, NOT_REQUIRED, CellStatus, Condition, ConditionStatus
from reconciler.resource.quantities import show_count, show_rate

_FAILED = "PreviousAttemptFailed"
_MARKS = {
    ConditionStatus.TRUE: ("ok", Tone.GOOD),
    ConditionStatus.FALSE: ("no", Tone.BAD),
    ConditionStatus.UNKNOWN: ("?", Tone.DOUBT),
}


def render_status_text(
    standings: Sequence[CellStatus], *, limit: int | None = LIMIT, reasons: bool = True, paint: Paint = show_plain
) -> str:
    """Render the matrix and, if nothing else shows the ``reasons``, the first one for which each cell is not ready. In
    a long list, cells that are not ready come first."""
    if not standings:
        return "No cell is declared."
    is_long = limit is not None and len(standings) > limit
    shown = sorted(standings, key=lambda s: is_long and s.ready is ConditionStatus.TRUE)[:limit]
    lines = _draw_matrix(shown, paint)
    if len(shown) < len(standings):
        lines.append(f"… and {show_count(len(standings) - len(shown), 'more cell')}; --all shows them")
    lines += _list_reasons(shown) if reasons else []
    lines.append(_summarise_cells(standings, paint))
    return "\n".join(lines)


def _draw_matrix(shown: Sequence[CellStatus], paint: Paint) -> list[str]:
    """Draw a column per condition; if that is too wide, one column for all of them."""
    required = {c.type for item in shown for c in item.conditions if c.reason != NOT_REQUIRED}
    columns = [name for name in CONDITIONS if name in required]
    rows = [
        (
            str(item.cell),
            *(_mark_condition(condition, paint) for condition in item.conditions if condition.type in columns),
            render_metric_text(item.metric),
            paint(_describe_result(item), Tone.FAINT) if _describe_result(item) else "",
        )
        for item in shown
    ]
    lines = render_table([("cell", *columns, "result", ""), *rows], right={len(columns) + 1})
    if paint.width is None or max(map(measure, lines)) <= paint.width:
        return lines
    marks = [set(item.marks) for item in shown if item.metric is not None]
    shared = set.intersection(*marks) if marks else set()
    short = [
        (row[0], _mark_first(item, paint), row[-2], paint(text, Tone.FAINT) if text else "")
        for row, item in zip(rows, shown, strict=True)
        for text in [_describe_result(item, without={*shared, item.validity} if _find_first(item) else shared)]
    ]
    lines = render_table([("cell", "ready", "result", ""), *short], width=paint.width, right={2}, is_last_loose=True)
    return [*lines, f"Each result above: {', '.join(sorted(shared))}."] if shared else lines


def _describe_result(item: CellStatus, without: Collection[str] = ()) -> str:
    power = [render_metric_text(item.efficiency)] if item.efficiency else []
    validity = [item.validity] if item.validity == "INVALID" else []
    return ", ".join([*power, *(word for word in (*validity, *item.marks) if word not in without)])


def render_under_way_text(steps: Sequence[QueuedStep]) -> str:
    """Return " open/box/resnet/Offline Run performance: running, 1,200 of 5,000, job 4711 on n3"."""
    lines = []
    for step in steps:
        far = [f"{step.done:,} of {step.expected:,}"] if step.expected else [f"{step.done:,} done"] if step.done else []
        lines.append(f"  {step.address.cell or ''}  {step.address.label}: {', '.join([step.state, *far, step.note])}")
    return "\n".join(["In a queue:", *lines])


def render_metric_text(metric: tuple[str, str] | None) -> str:
    """Return "107 samples/s"; "-" if nothing is measured."""
    if metric is None:
        return "-"
    value, unit = metric
    try:
        return f"{show_rate(float(value))} {unit}".rstrip()
    except ValueError:
        return f"{value} {unit}".rstrip()


def _mark_condition(condition: Condition, paint: Paint) -> str:
    return paint(*_MARKS[condition.status])


def _mark_first(item: CellStatus, paint: Paint) -> str:
    """Return "ok"; else "not valid", "built?" or "failed" for the first condition that is not met."""
    first = _find_first(item)
    if first is None:
        return _mark_condition(item.conditions[-1], paint)
    name = first.type.lower()
    text = f"not {name}" if first.status is ConditionStatus.FALSE else f"{name}?"
    return paint("failed" if first.reason == _FAILED else text, _MARKS[first.status][1])


def _find_first(item: CellStatus) -> Condition | None:
    """Find the first condition that is not met. In pipeline order, it is the cause of the rest."""
    wrong = [c for c in item.conditions[:-1] if c.status is not ConditionStatus.TRUE]
    return next((c for c in wrong if c.reason != "UpstreamReplaced"), wrong[0] if wrong else None)


def _list_reasons(standings: Sequence[CellStatus]) -> list[str]:
    """Explain each cell that is not ready; cells with the same reason share a line."""
    cells: dict[str, list[str]] = {}
    for item in standings:
        if (first := _find_first(item)) is not None:
            cells.setdefault(_explain_condition(first), []).append(str(item.cell))
    named = {reason: f"{len(names)} cells, such as " if len(names) > 1 else "" for reason, names in cells.items()}
    return [f"  {named[reason]}{names[0]}: {reason}" for reason, names in cells.items()]


def _explain_condition(condition: Condition) -> str:
    """Return "not built: input changed"."""
    if condition.reason == _FAILED:
        return f"last attempt failed: {condition.message}"
    word = "not" if condition.status is ConditionStatus.FALSE else "unknown whether"
    reason = "" if condition.reason == "Invalid" else condition.cause
    said = [f"{word} {condition.type.lower()}", reason, condition.message]
    return ": ".join(filter(None, said))


def _summarise_cells(standings: Sequence[CellStatus], paint: Paint) -> str:
    ready = Counter(s.ready for s in standings)
    if ready[ConditionStatus.TRUE] == len(standings):
        return paint(f"{show_count(len(standings), 'cell')} ready.", Tone.GOOD)
    parts = [f"{ready[ConditionStatus.TRUE]:,} of {show_count(len(standings), 'cell')} ready"]
    words = {ConditionStatus.FALSE: "not", ConditionStatus.UNKNOWN: "unknown"}
    parts += [f"{ready[status]:,} {word}" for status, word in words.items() if ready[status]]
    return paint(", ".join(parts) + ".", Tone.BAD)

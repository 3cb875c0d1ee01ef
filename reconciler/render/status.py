"""Cells x conditions as a table that reads without colour: ok, no, ?."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from reconciler.execute.outcome import QueuedStep
from reconciler.render.causes import label
from reconciler.render.colour import Paint, Tone, show_plain
from reconciler.render.plan import LIMIT
from reconciler.resource.conditions import CONDITIONS, NOT_REQUIRED, CellStatus, Condition, ConditionStatus
from reconciler.resource.quantities import show_count, show_rate

_MARKS = {
    ConditionStatus.TRUE: ("ok", Tone.GOOD),
    ConditionStatus.FALSE: ("no", Tone.BAD),
    ConditionStatus.UNKNOWN: ("?", Tone.DOUBT),
}


def render_status_text(standings: Sequence[CellStatus], *, limit: int | None = LIMIT, paint: Paint = show_plain) -> str:
    """The matrix; then, for cells that are not ready, the first reason. In a long list those cells come first."""
    if not standings:
        return "No cell is declared."
    ranked = (
        sorted(standings, key=lambda s: s.ready is ConditionStatus.TRUE)
        if limit and len(standings) > limit
        else standings
    )
    shown = ranked[:limit]
    width = max(len("cell"), *(len(str(s.cell)) for s in shown))
    results = [render_metric_text(s.metric) for s in shown]
    metric_width = max(len("result"), *map(len, results))
    columns = [name for name in CONDITIONS if any(c.type == name and c.reason != NOT_REQUIRED for c in _all(shown))]
    lines = ["  ".join([f"{'cell':<{width}}", *columns, f"{'result':>{metric_width}}"])]
    for item, result in zip(shown, results, strict=True):
        marks = [_mark(condition, paint) for condition in item.conditions if condition.type in columns]
        power = [render_metric_text(item.efficiency)] if item.efficiency else []
        extra = ", ".join([*power, *([item.validity] if item.validity == "INVALID" else []), *item.marks])
        row = [f"{item.cell!s:<{width}}", *marks, f"{result:>{metric_width}}"]
        lines.append(("  ".join(row) + (f"  {paint(extra, Tone.FAINT)}" if extra else "")).rstrip())
    if len(shown) < len(standings):
        lines.append(f"… and {show_count(len(standings) - len(shown), 'more cell')}; --all shows them")
    lines += _reasons(shown)
    lines.append(_summary(standings, paint))
    return "\n".join(lines)


def render_under_way_text(steps: Sequence[QueuedStep]) -> str:
    """ "  open/box/resnet/Offline  Run perf: running, 1,200 of 5,000, job 4711 on n3"."""
    lines = []
    for step in steps:
        far = [f"{step.done:,} of {step.expected:,}"] if step.expected else [f"{step.done:,} done"] if step.done else []
        lines.append(f"  {step.address.cell or ''}  {label(step.address)}: {', '.join([step.state, *far, step.note])}")
    return "\n".join(["In a queue:", *lines])


def _all(standings: Sequence[CellStatus]) -> Iterator[Condition]:
    return (condition for item in standings for condition in item.conditions)


def render_metric_text(metric: tuple[str, str] | None) -> str:
    """ "107 samples/s"; "-" where nothing is measured."""
    if metric is None:
        return "-"
    value, unit = metric
    try:
        return f"{show_rate(float(value))} {unit}".rstrip()
    except ValueError:
        return f"{value} {unit}".rstrip()


def _mark(condition: Condition, paint: Paint) -> str:
    word, tone = _MARKS[condition.status]
    return paint(word, tone) + " " * (len(condition.type) - len(word))


def _reasons(standings: Sequence[CellStatus]) -> list[str]:
    lines = []
    for item in standings:
        # In pipeline order, so that the first is the cause of the rest.
        wrong = [c for c in item.conditions[:-1] if c.status is not ConditionStatus.TRUE]
        first = next((c for c in wrong if c.reason != "UpstreamReplaced"), wrong[0] if wrong else None)
        if first is not None:
            lines.append(f"  {item.cell}: {first.type}: {first.reason}{': ' if first.message else ''}{first.message}")
    return lines


def _summary(standings: Sequence[CellStatus], paint: Paint) -> str:
    ready = Counter(s.ready for s in standings)
    if ready[ConditionStatus.TRUE] == len(standings):
        return paint(f"{show_count(len(standings), 'cell')} ready.", Tone.GOOD)
    parts = [f"{ready[ConditionStatus.TRUE]:,} of {show_count(len(standings), 'cell')} ready"]
    parts += [
        f"{ready[s]:,} {word}"
        for s, word in ((ConditionStatus.FALSE, "not"), (ConditionStatus.UNKNOWN, "unknown"))
        if ready[s]
    ]
    return paint(", ".join(parts) + ".", Tone.BAD)

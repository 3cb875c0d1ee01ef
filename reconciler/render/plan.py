"""A plan as text: steps by cell with reasons, obstacles, drift, findings, the totals and the expected time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from reconciler.desired.state import Desired
from reconciler.diff.change import DAMAGED_RECORD, DIFFERS, FAILED, INVALID, SYMBOL, Action, Drift, Finding
from reconciler.plan.plan import DeadlineEntry, MachineSchedule, Plan, Step
from reconciler.render.causes import (
    choose_action_word,
    describe_cause,
    describe_origin,
    describe_sharing,
    find_obstacle,
)
from reconciler.render.colour import Paint, Tone, show_plain
from reconciler.render.table import lay_out, render_table
from reconciler.resource.decisions import AcceptanceStatus
from reconciler.resource.inputs import Origin
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.quantities import join_listing, show_count, show_duration
from reconciler.resource.wording import show_acceptance

LIMIT = 40  # headings shown before the rest is only counted
_TONES = {Action.CREATE: Tone.GOOD, Action.REPLACE: Tone.DOUBT}
_WIDEST = 72
_NAME = 12  # minimum columns for resource names
_FEW = 4  # lines of one kind shown individually: drift, and obstacles
_LONG = 12  # headings of a plan shown in full; a longer one shows identical cells once
_NAMED = 6  # identical cells listed by name


class _StepRow(NamedTuple):
    cells: tuple[str, str, str, str]
    below: tuple[str, ...]


class _Group(NamedTuple):
    """The steps below one heading. ``alike``: other headings with the same steps, for the same reasons."""

    name: str
    steps: list[Step]
    alike: tuple[str, ...] = ()


def render_heading(address: Address) -> str:
    """Return the cell, or the name of a resource that several cells share."""
    return str(address.cell) if address.cell else address.name


def group_steps(steps: Iterable[Step]) -> dict[str, list[Step]]:
    groups: dict[str, list[Step]] = {}
    for step in steps:
        groups.setdefault(render_heading(step.change.address), []).append(step)
    return groups


def collect_shown_origins(plan: Plan, limit: int | None = LIMIT) -> tuple[Origin, ...]:
    """Return the spec lines that the text will show, to look up who changed them."""
    found = (describe_origin(step) for group in _fold_groups(plan, limit)[:limit] for step in group.steps)
    return tuple(dict.fromkeys(o for o in found if o is not None))


def render_plan_text(
    plan: Plan, *, commits: Mapping[Origin, str] | None = None, limit: int | None = LIMIT, paint: Paint = show_plain
) -> str:
    """Render the steps by cell, then shared obstacles, drift, findings and undeclared resources, and one summary line.
    A long plan shows cells with the same steps once; ``limit`` None shows every cell."""
    groups = _fold_groups(plan, limit)
    obstacles = _fold_obstacles(plan)
    actions = {step.change.address: step.change.action for step in plan.steps}
    shown = groups[:limit]
    steps = [step for group in shown for step in group.steps]
    names = max((len(step.change.address.label) for step in steps), default=0)
    rows = [_render_row(step, commits or {}, actions, obstacles, max(names, _NAME), paint) for step in steps]
    laid_out = iter(lay_out([row.cells for row in rows], 2, width=paint.width, first=2))
    below = iter(rows)
    lines: list[str] = []
    for group in shown:
        lines.append(paint(group.name, Tone.HEADING))
        if group.alike:
            names_alike = join_listing(group.alike, most=_NAMED)
            lines.append(paint(f"  and {len(group.alike):,} more alike: {names_alike}", Tone.FAINT))
        for _ in group.steps:
            lines += [*next(laid_out), *(f"      {line}" for line in next(below).below)]
    hidden = sum(1 + len(group.alike) for group in groups[len(shown) :])
    if hidden:
        lines.append(f"… and {show_count(hidden, 'more cell')}; --all shows them")
    for cause, obstacle in obstacles.items():
        lines.append(f"{paint(f'{obstacle.number} {obstacle.steps:,} blocked'.lstrip(), Tone.BAD)}: {cause}")
        lines += [f"      fix: {obstacle.fix}"] if obstacle.fix else []
    lines += _render_notes(plan, limit, paint)
    lines.append(summarise_plan(plan, paint))
    return "\n".join(lines)


def render_scratch_sources(plan: Plan, desired: Desired) -> list[str]:
    """Render a line for each path of the steps that was found in the scratch space, since no path is used silently."""
    lines = []
    for step in plan.steps:
        address = step.change.address
        if address.kind in (Kind.DATASET, Kind.MODEL):
            kind, locations = str(address.kind).lower(), desired.detail(address).locations
            path = locations.get(f"{kind}.path", "")
            if path and path in locations.get(f"{kind}.looked_for", "").split(", "):
                lines.append(f"{address.name}: the spec has no {kind}.path, so the scratch space is used: {path}")
    return lines


def _fold_groups(plan: Plan, limit: int | None) -> list[_Group]:
    """Group steps by heading; in a long plan, merge groups that differ only in names."""
    groups = group_steps(plan.steps)
    if limit is None or len(groups) <= _LONG:
        return [_Group(name, steps) for name, steps in groups.items()]
    actions = {step.change.address: step.change.action for step in plan.steps}
    alike: dict[object, list[str]] = {}
    for name, steps in groups.items():
        alike.setdefault(tuple(_describe_step(step, actions) for step in steps), []).append(name)
    return [_Group(first, groups[first], tuple(others)) for first, *others in alike.values()]


def _describe_step(step: Step, actions: Mapping[Address, Action]) -> tuple[object, ...]:
    """Describe a step, without the author of its line."""
    word, cause = choose_action_word(step), describe_cause(step, actions)
    shared = describe_sharing(step)
    return step.change.address.label, word, cause, shared, describe_origin(step), step.blocked, step.fix


class _Obstacle(NamedTuple):
    """``number``: "(2)", or "" if there is only one. ``steps``: those blocked on it, directly or not."""

    number: str
    fix: str
    steps: int


def _fold_obstacles(plan: Plan) -> dict[str, _Obstacle]:
    """Fold obstacles that block more than a few steps, by their text."""
    fixes = {step.blocked: step.fix for step in reversed(plan.steps) if step.blocked}
    counts = Counter(find_obstacle(step.blocked) for step in plan.steps if step.blocked)
    many = [(cause, count) for cause, count in counts.items() if count > _FEW]
    numbers = [f"({number})" if len(many) > 1 else "" for number in range(1, len(many) + 1)]
    return {c: _Obstacle(n, fixes.get(c, ""), count) for n, (c, count) in zip(numbers, many, strict=True)}


def _render_row(
    step: Step,
    commits: Mapping[Origin, str],
    actions: Mapping[Address, Action],
    obstacles: Mapping[str, _Obstacle],
    names: int,
    paint: Paint,
) -> _StepRow:
    """Return the row of a step. ``names``: columns for the resource names."""
    where = describe_origin(step)
    reason = _shorten_reason(describe_cause(step, actions))
    if describe_sharing(step):
        reason += f" ({describe_sharing(step)})"
    below: tuple[str, ...] = ()
    if folded := obstacles.get(find_obstacle(step.blocked)):
        reason += f"; blocked {folded.number}".rstrip()
    elif step.blocked:
        below = (f"blocked: {step.blocked}", *([f"fix: {step.fix}"] if step.fix else ()))
    tone, symbol = (Tone.BAD, "!") if step.blocked else (_TONES[step.change.action], SYMBOL[step.change.action])
    name = step.change.address.label
    cells = (
        f"{paint(symbol, tone)} {name:<{names}} {choose_action_word(step):<7}",
        reason,
        str(where or ""),
        commits.get(where, "") if where else "",
    )
    return _StepRow(cells, below)


def _shorten_reason(text: str) -> str:
    """Cut a long reason after a word; if it consists of a long path, cut its middle out."""
    words = " ".join(text.split())
    head, half = words[:_WIDEST].rpartition(" ")[0], _WIDEST // 2
    if len(words) <= _WIDEST:
        return words
    return f"{head} …" if len(head) >= half else f"{words[:half]}…{words[-half:]}"


def _render_notes(plan: Plan, limit: int | None, paint: Paint) -> list[str]:
    drifts = list(_render_drifts(plan.drifts))
    lines = [f"{paint('drift', Tone.DOUBT)} {text}" for text in _limit_lines(drifts, limit)]
    lines += render_finding_lines(plan.findings, limit, paint)
    for text in _limit_lines(list(_render_acceptances(plan)), limit):
        lines.append(f"{paint('accepted', Tone.DOUBT)} {text}")
    for freeze in plan.frozen[:limit]:
        text = str(freeze).removeprefix("frozen ")
        lines.append(f"{paint('frozen', Tone.DOUBT)} {freeze.cell or 'the whole submission'}: {text}")
    if plan.undeclared:
        names = join_listing(map(str, plan.undeclared), most=3)
        lines.append(f"{paint('not declared', Tone.FAINT)} {names}: recorded but not declared; kept")
    return lines


def render_finding_lines(findings: Sequence[Finding], limit: int | None, paint: Paint) -> list[str]:
    lines = []
    for finding in findings[:limit]:
        lines.append(f"{paint('finding', Tone.BAD)} {finding.where}: {finding.kind}: {finding.message}")
        lines += [f"      fix: {finding.fix}"] if finding.fix else []
    if limit is not None and len(findings) > limit:
        lines.append(f"… and {show_count(len(findings) - limit, 'more finding')}; --all shows them")
    return lines


def _render_acceptances(plan: Plan) -> Iterator[str]:
    """Render each acceptance with its cell; those no longer needed are omitted."""
    for _, item, status in plan.acceptances:
        if status is not AcceptanceStatus.MEASURED:
            yield f"{item.cell}: {show_acceptance(item, status)}"


def _limit_lines(lines: list[str], limit: int | None) -> list[str]:
    if limit is None or len(lines) <= limit:
        return lines
    return [*lines[:limit], f"… and {len(lines) - limit} more; --all shows them"]


def summarise_plan(plan: Plan, paint: Paint = show_plain) -> str:
    """Return "Plan: 4 to replace, 61 unchanged. About 1 h 50 min on h200x8. Nothing is pruned."."""
    left_out = f" {show_count(plan.excluded, 'step')} left out by the selection." if plan.excluded else ""
    if not plan.steps:
        resources = show_count(plan.unchanged, "resource")
        if plan.findings:
            findings = join_listing(_count_findings(plan.findings))
            return paint(f"Nothing to do for {resources}, but {findings}.", Tone.BAD) + left_out
        return paint(f"In sync: {resources}, nothing to do.", Tone.GOOD) + left_out
    words = Counter(choose_action_word(step) for step in plan.steps)
    counts = [f"{number:,} to {word}" for word, number in words.items()]
    blocked = sum(1 for step in plan.steps if step.blocked)
    sentences = [f"Plan: {', '.join([*counts, f'{plan.unchanged:,} unchanged'])}."]
    if blocked:
        sentences.append(f"{blocked:,} blocked.")
    sentences += _render_expected(plan.steps)
    if plan.findings:
        sentences.append(f"{show_count(len(plan.findings), 'finding')}.")
    sentences.append("Nothing is pruned.")
    return paint(" ".join(sentences), Tone.HEADING) + left_out


def _count_findings(findings: Sequence[Finding]) -> list[str]:
    damaged = sum(1 for finding in findings if finding.kind == DAMAGED_RECORD)
    lasting = len(findings) - damaged
    counts = [f"{show_count(lasting, 'finding')} that no step can fix"] if lasting else []
    return [*counts, f"{show_count(damaged, 'damaged record')} that the next pass repairs"] if damaged else counts


def _render_expected(steps: Iterable[Step]) -> list[str]:
    """Render the time that unblocked steps with a prediction take on their systems."""
    due = [step for step in steps if not step.blocked]
    known = [step.seconds for step in due if step.seconds is not None]
    if not known:
        return []
    # Rendering has no prediction and takes no time, so only steps with a child process count as unknown.
    unknown = sum(1 for step in due if step.seconds is None and step.change.how == "make")
    cells = (step.change.address.cell for step in due)
    systems = list(dict.fromkeys(cell.system for cell in cells if cell))
    where = f" on {join_listing(systems, most=3)}" if systems else ""
    if unknown:
        text = show_least_time(sum(known), unknown, where)
        return [f"{text[0].upper()}{text[1:]}."]
    return [f"About {show_duration(sum(known))}{where}."]


def show_least_time(seconds: float, unknown: int, where: str = "") -> str:
    """Render the predicted time, with ``unknown`` steps that have no prediction; times below a second are omitted."""
    others = f"{show_count(unknown, 'step')} without a prediction"
    return others if seconds < 1 else f"at least {show_duration(seconds)}{where} ({others})"


def _render_drifts(drifts: Iterable[Drift]) -> Iterator[str]:
    """Render one line for each; many of one kind, as in a fresh clone, share one line that counts them."""
    sorts: dict[tuple[str, str], list[Drift]] = {}
    for drift in drifts:
        sorts.setdefault((drift.presence, drift.repair), []).append(drift)
    for (presence, repair), found in sorts.items():
        if len(found) <= _FEW:
            yield from (f"{render_heading(d.address)}: {d.address.label} {d.what} {presence}; {repair}" for d in found)
        else:
            kinds = Counter(drift.address.label for drift in found)
            named = join_listing([f"{number} x {kind}" for kind, number in kinds.items()])
            noun = {DIFFERS: "facts", FAILED: "repeats", INVALID: "repeats"}.get(presence, "artifacts")
            yield f"{len(found)} {noun} {presence} ({named}); {repair}"


# The plan up to a deadline, machine by machine.

_SHOWN = "%Y-%m-%d %H:%M"


def render_deadline_text(schedules: Sequence[MachineSchedule], now: datetime, by: datetime) -> str:
    left = show_duration((by - now).total_seconds())
    lines = [f"Until {by:{_SHOWN}}: {left}."]
    for found in schedules:
        lines += _render_machine(found, now)
    if not schedules:
        lines.append("Nothing to run.")
    return "\n".join(lines)


def _render_machine(found: MachineSchedule, now: datetime) -> Iterator[str]:
    total = len(found.fits) + len(found.drops)
    blocked = f" From here it is blocked: {found.blocked}." if found.blocked else ""
    yield f"{found.machine}: {len(found.fits)} of {show_count(total, 'result')} fit.{blocked}"
    rows = [(e.name, _show_cost(e), f"done {now + timedelta(seconds=e.ends):{_SHOWN}}") for e in found.fits]
    words = ["drop first", *["drop next"] * len(found.drops)]
    rows += [(entry.name, _show_cost(entry), word) for entry, word in zip(found.drops, words, strict=False)]
    yield from render_table(rows, 2)


def _show_cost(entry: DeadlineEntry) -> str:
    return show_least_time(entry.seconds, entry.unknown) if entry.unknown else show_duration(entry.seconds)


def render_deadline_part(schedules: Sequence[MachineSchedule], now: datetime, by: datetime) -> dict[str, Any]:
    return {
        "by": by.isoformat(),
        "seconds": round((by - now).total_seconds()),
        "machines": [
            {
                "machine": found.machine,
                "blocked": found.blocked or None,
                "fits": [_render_entry(entry) for entry in found.fits],
                "drops": [_render_entry(entry) for entry in found.drops],
            }
            for found in schedules
        ],
    }


def _render_entry(entry: DeadlineEntry) -> dict[str, Any]:
    cells = [str(cell) for cell in entry.cells]
    return {"name": entry.name, "cells": cells, "seconds": entry.seconds, "unknown": entry.unknown, "ends": entry.ends}

"""Render the plan up to a deadline, machine by machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from reconciler.plan.plan import DeadlineEntry, MachineSchedule
from reconciler.render.plan import show_least_time
from reconciler.render.table import render_table
from reconciler.resource.quantities import show_count, show_duration

_SHOWN = "%Y-%m-%d %H:%M"


def render_deadline_text(schedules: Sequence[MachineSchedule], now: datetime, by: datetime) -> str:
    left = show_duration((by - now).total_seconds())
    lines = [f"Until {by:{_SHOWN}}: {left}."]
    for found in schedules:
        lines += _machine(found, now)
    if not schedules:
        lines.append("Nothing to run.")
    return "\n".join(lines)


def _machine(found: MachineSchedule, now: datetime) -> Iterator[str]:
    total = len(found.fits) + len(found.drops)
    blocked = f" From here it is blocked: {found.blocked}." if found.blocked else ""
    yield f"{found.machine}: {len(found.fits)} of {show_count(total, 'result')} fit.{blocked}"
    rows = [(entry.name, _cost(entry), f"done {now + timedelta(seconds=entry.ends):{_SHOWN}}") for entry in found.fits]
    words = ["drop first", *["drop next"] * len(found.drops)]
    rows += [(entry.name, _cost(entry), word) for entry, word in zip(found.drops, words, strict=False)]
    yield from render_table(rows, 2)


def _cost(entry: DeadlineEntry) -> str:
    return show_least_time(entry.seconds, entry.unknown) if entry.unknown else show_duration(entry.seconds)


def render_deadline_part(schedules: Sequence[MachineSchedule], now: datetime, by: datetime) -> dict[str, Any]:
    return {
        "by": by.isoformat(),
        "seconds": round((by - now).total_seconds()),
        "machines": [
            {
                "machine": found.machine,
                "blocked": found.blocked or None,
                "fits": [_entry(entry) for entry in found.fits],
                "drops": [_entry(entry) for entry in found.drops],
            }
            for found in schedules
        ],
    }


def _entry(entry: DeadlineEntry) -> dict[str, Any]:
    cells = [str(cell) for cell in entry.cells]
    return {"name": entry.name, "cells": cells, "seconds": entry.seconds, "unknown": entry.unknown, "ends": entry.ends}

"""`plan --by`: which results fit the time that is left, on each machine."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from reconciler.plan.deadline import schedule
from reconciler.plan.plan import MachineSchedule, Step
from reconciler.reconcile.planning import PlanResult
from reconciler.render.deadline import render_deadline_part, render_deadline_text


def describe_deadline(seen: PlanResult, now: datetime, by: datetime) -> str:
    return render_deadline_text(_schedule(seen, now, by), now, by)


def report_deadline(seen: PlanResult, now: datetime, by: datetime) -> dict[str, Any]:
    """For ``--json``."""
    return render_deadline_part(_schedule(seen, now, by), now, by)


def _schedule(seen: PlanResult, now: datetime, by: datetime) -> tuple[MachineSchedule, ...]:
    """Schedule steps: those of this machine wait for their turn here; those of another have that one's time."""
    systems = seen.desired.submission.systems

    def place(step: Step) -> str:
        cell = step.change.address.cell
        assert cell is not None
        return "this machine" if systems[cell.system].runs_here and not step.blocked else cell.system

    return schedule(seen.plan, place, (by - now).total_seconds())

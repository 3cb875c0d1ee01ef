"""Plans and passes as text that is the same on every machine and day: no times, digests, measures or messages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reconciler.diff.change import InputChange
from reconciler.execute.outcome import Outcome
from reconciler.plan.plan import Plan, Step
from reconciler.reconcile.run import PassReport

_STABLE = ((re.compile(r"-[0-9a-f]{20}\b"), "-<digest>"), (re.compile(r"\b[0-9a-f]{64}\b"), "<digest>"))


def plan_lines(plan: Plan, root: str) -> str:
    """One line per step, then drift, findings and what is no longer declared; the counts at the end."""
    return _stable("\n".join(_plan(plan)) + "\n", root)


def pass_lines(report: PassReport, root: str) -> str:
    """One line per outcome, in order; then what a look after the pass still finds."""
    lines = [_outcome(outcome) for outcome in report.outcomes]
    return _stable("\n".join([*lines, "then", *_plan(report.after.plan)]) + "\n", root)


def _stable(text: str, root: str) -> str:
    text = text.replace(root, "<root>")
    for pattern, shown in _STABLE:
        text = pattern.sub(shown, text)
    return text


def _plan(plan: Plan) -> Iterator[str]:
    for step in plan.steps:
        yield from _step(step)
    for drift in plan.drifts:
        yield f"drift {drift.address}: {drift.what} {drift.presence}"
    for finding in plan.findings:
        yield f"finding {finding.where}: {finding.kind}"
    for address in plan.undeclared:
        yield f"undeclared {address}"
    yield f"{len(plan.steps)} steps, {plan.unchanged} unchanged, {plan.excluded} excluded"


def _step(step: Step) -> Iterator[str]:
    change = step.change
    yield f"{change.action} {change.address} {change.reason} {change.how}"
    for address in step.shared:
        yield f"    shared {address}"
    for explained in step.explained[:1]:
        yield f"    input {_input(explained)}"
    if step.blocked:
        yield "    blocked"


def _input(change: InputChange) -> str:
    if change.upstream is not None:
        return f"{change.name} replaced, {change.origin}"
    return f"{change.name}: {change.before} -> {change.after}, {change.origin}"


def _outcome(outcome: Outcome) -> str:
    return f"{outcome.status} {outcome.step.change.address}"

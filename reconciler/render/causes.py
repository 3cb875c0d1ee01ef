"""Summarise why a step is planned, and which spec line caused it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from reconciler.diff.change import REASON_WORDS, Action, InputChange, Reason, Work
from reconciler.plan.plan import Step
from reconciler.resource.inputs import Origin
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.quantities import join_listing, show_count
from reconciler.resource.wording import show_change

# A step that waits for another one, or that only such steps need; see ``plan.builder``.
_WAITING = re.compile(r"(?:waits for [^()]+|needed only by what is blocked) \((.*)\)")
_FILES = 4  # changed code files listed by name
_MADE = {Action.CREATE: "created", Action.REPLACE: "replaced"}


def choose_action_word(step: Step) -> str:
    """Return "replace" or "create"; or "restore" and "render" if nothing runs again."""
    if step.change.how is not Work.MAKE:
        return str(step.change.how)
    return step.change.action.value.lower()


def word_reason(name: str) -> str:
    """Describe a reason, given its name in JSON."""
    return REASON_WORDS[Reason(name)]


def describe_cause(step: Step, actions: Mapping[Address, Action] = MappingProxyType({})) -> str:
    """Describe the first changed input as old → new, else the reason with its subject.

    ``actions``: the plan's actions for the resource's inputs.
    """
    change = step.change
    shown = _select_changes(step)
    if shown:
        more = len(shown) - 1
        first = _show_input(shown[0], change.address.kind)
        return first + (f" and {more} more" if more else "")
    follows = change.reason in (Reason.UPSTREAM_REPLACED, Reason.INPUT_CHANGED) or change.how is Work.RENDER
    if step.because and follows:
        names = join_listing(dict.fromkeys(_name_in_sentence(address) for address in step.because), most=3)
        made = {actions.get(address, Action.REPLACE) for address in step.because}
        return f"{names} {_MADE.get(made.pop(), 'changed') if len(made) == 1 else 'changed'}"
    unrendered = change.how is Work.RENDER and change.reason is Reason.NOT_RECORDED
    text = "not rendered yet" if unrendered else REASON_WORDS[change.reason]
    if change.note:
        return f"{text}: {change.note}"
    return text


def _show_input(changed: InputChange, kind: Kind) -> str:
    """Describe a change of code by its files, if they are known."""
    if changed.files:
        return f"{changed.name.removesuffix('.sha256')}: {join_listing(changed.files, most=_FILES)}"
    return show_change(changed.name, changed.before, changed.after, kind)


def _name_in_sentence(address: Address) -> str:
    """Return the name as used in mid-sentence: "engine", "accuracy run", but "TEST01"."""
    if address.label.startswith("Run "):
        return f"{address.label.removeprefix('Run ')} run"
    words = address.label.split()
    return " ".join(word if word.isupper() else word.lower() for word in words)


def describe_origin(step: Step) -> Origin | None:
    """Return the spec line behind the first changed input; None if no line of a spec is the cause."""
    shown = _select_changes(step)
    return shown[0].origin if shown and shown[0].origin.line else None


def _select_changes(step: Step) -> tuple[InputChange, ...]:
    """Select the changed inputs that show the cause. "engine replaced" is clearer than the key of a resource in the
    same plan."""
    if step.change.reason not in (Reason.INPUT_CHANGED, Reason.UPSTREAM_REPLACED, Reason.NOT_RECORDED):
        return ()
    return tuple(change for change in step.explained if change.upstream not in step.because)


def find_obstacle(blocked: str) -> str:
    """Return the original obstacle of a step that waits for a blocked one, or that only such steps need."""
    while waiting := _WAITING.fullmatch(blocked):
        blocked = waiting[1]
    return blocked


def describe_sharing(step: Step) -> str:
    """Return "also for 3 more cells" for a step whose outcome satisfies others too."""
    noun = "more cell" if step.change.address.cell else "more benchmark"
    return f"also for {show_count(len(step.shared), noun)}" if step.shared else ""

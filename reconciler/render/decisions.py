"""What people decided about cells, as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reconciler.diff.change import InputChange
from reconciler.quantities import join_listing
from reconciler.render.values import render_change_text
from reconciler.resource.decisions import Acceptance, AcceptanceStatus, AcceptedInput
from reconciler.resource.inputs import Origin
from reconciler.resource.kinds import Address


def render_acceptance_text(item: Acceptance, stand: AcceptanceStatus = AcceptanceStatus.IN_FORCE) -> str:
    """ "batch_size 8 → 16, until 2026-12-20, by Ada: the kernels are the same"."""
    changed = render_difference_text(item)
    if stand is AcceptanceStatus.IN_FORCE:
        return f"{changed}, until {item.until}, by {_name(item.by)}: {item.reason}"
    when = f" since {item.until}" if stand is AcceptanceStatus.EXPIRED else ""
    return f"{changed}: {stand}{when}, so it counts for nothing"


def render_difference_text(item: Acceptance) -> str:
    texts = [render_input_text(address, changed) for address, changed in item.inputs]
    return join_listing(texts, most=3) if texts else "a new revision of our own code"


def render_input_text(address: Address, item: AcceptedInput) -> str:
    return render_change_text(InputChange(item.name, item.before, item.after, Origin(item.origin)), address)


def render_acceptance_lines(found: Iterable[tuple[str, Acceptance, AcceptanceStatus]]) -> Iterator[str]:
    """Each with its cell. What is not needed any more goes without saying."""
    for _, item, stand in found:
        if stand is not AcceptanceStatus.MEASURED:
            yield f"{item.cell}: {render_acceptance_text(item, stand)}"


def _name(by: str) -> str:
    return by.partition(" <")[0]

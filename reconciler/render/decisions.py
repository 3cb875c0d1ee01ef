"""What people decided about cells, as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reconciler.diff.change import InputChange
from reconciler.render.quantities import listing
from reconciler.render.values import change_text
from reconciler.resource.decisions import Acceptance, AcceptedInput, Stand
from reconciler.resource.inputs import Origin
from reconciler.resource.kinds import Address


def acceptance_text(item: Acceptance, stand: Stand = Stand.IN_FORCE) -> str:
    """ "batch_size 8 → 16, until 2026-12-20, by Ada: the kernels are the same"."""
    changed = difference_text(item)
    if stand is Stand.IN_FORCE:
        return f"{changed}, until {item.until}, by {_name(item.by)}: {item.reason}"
    when = f" since {item.until}" if stand is Stand.EXPIRED else ""
    return f"{changed}: {stand}{when}, so it counts for nothing"


def difference_text(item: Acceptance) -> str:
    texts = [input_text(address, changed) for address, changed in item.inputs]
    return listing(texts, most=3) if texts else "a new revision of our own code"


def input_text(address: Address, item: AcceptedInput) -> str:
    return change_text(InputChange(item.name, item.before, item.after, Origin(item.origin)), address)


def acceptance_lines(found: Iterable[tuple[str, Acceptance, Stand]]) -> Iterator[str]:
    """Each with its cell. What is not needed any more goes without saying."""
    for _, item, stand in found:
        if stand is not Stand.MEASURED:
            yield f"{item.cell}: {acceptance_text(item, stand)}"


def _name(by: str) -> str:
    return by.partition(" <")[0]

"""Drift that stops nothing: runs of a cell that were made on another machine of the same kind, or with another kernel;
and repeats that failed."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from reconciler.desired.state import Desired
from reconciler.diff.change import DIFFERS, FAILED, INVALID, Drift
from reconciler.resource.kinds import Address
from reconciler.resource.records import Ended, Recorded, Summary


def find_host_drift(published: Summary | None, others: Iterable[Summary]) -> Iterator[Drift]:
    """Find hosts of ``others`` other than that of the published performance run.

    What must not differ is declared (accelerator, count, power limit) or evidence (driver, code, engine bytes).
    """
    here = dict(published.noted) if published is not None else {}
    for other in others:
        for name, value in other.noted:
            if name in here and here[name] != value:
                what = f"{name} ({value}, of the performance run {here[name]})"
                yield Drift(other.address, what, DIFFERS, "the rules allow it")


def find_failed_repeats(
    desired: Desired, recorded: Recorded, used: Mapping[Address, Summary], due: Container[Address]
) -> Iterator[Drift]:
    """Outcomes that count although their last repeat came to nothing, as one that was forced: nothing is due for it,
    since the inputs are the same, and people want to know."""
    for resource in desired.resources:
        known = recorded.by_key.get(resource.key, ())
        own = used.get(resource.address) if known and resource.address not in due else None
        if own is None or own is known[-1] or own.problem:
            continue
        how = FAILED if known[-1].ended is Ended.FAILED else INVALID if known[-1].validity == "INVALID" else ""
        if how:
            repair = "the earlier outcome counts; `--rerun` makes it once more"
            yield Drift(resource.address, f"repeat of {known[-1].started[:16]}", how, repair)

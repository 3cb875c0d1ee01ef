"""Where a cell's runs were made: another machine of the same kind, or another kernel, is told and stops nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reconciler.diff.change import DIFFERS, Drift
from reconciler.resource.records import Summary


def find_host_drift(published: Summary | None, others: Iterable[Summary]) -> Iterator[Drift]:
    """What ``others`` were made on, where it is not what the published performance run was made on.

    What must not differ is declared (accelerator, count, power limit) or evidence (driver, code, engine bytes).
    """
    here = dict(published.noted) if published is not None else {}
    for other in others:
        for name, value in other.noted:
            if name in here and here[name] != value:
                what = f"{name} ({value}, of the performance run {here[name]})"
                yield Drift(other.address, what, DIFFERS, "the rules allow it")

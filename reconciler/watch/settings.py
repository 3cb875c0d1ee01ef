"""Options of `watch` as one value: how long it waits, which cells and hours, whether it commits and pushes."""

from __future__ import annotations

from msgspec import Struct, field

from reconciler.plan.select import Selector
from reconciler.reconcile.planning import Options
from reconciler.watch.windows import TimeWindow


class WatchSettings(Struct, frozen=True):
    """Times in seconds. ``stop``: a child that is superseded is ended, not waited for. ``remote``: followed, ``push``:
    pushed to; "" for none. ``health``: a port on the loopback interface, 0 for none."""

    options: Options = field(default_factory=Options)
    debounce: float = 0.1
    resync: float = 120.0
    stop: bool = False
    observed: tuple[Selector, ...] = ()
    windows: tuple[TimeWindow, ...] = ()
    commit: bool = False
    remote: str = ""
    poll: float = 60.0
    push: str = ""
    health: int = 0

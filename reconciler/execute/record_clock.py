"""Keep records in order when a machine's clock was set back, or when another machine's clock runs ahead.

The newest record of a cell counts, so a new measurement must never look older than an existing one.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import Struct, field

from reconciler.resource.kinds import Address
from reconciler.resource.records import Recorded

FORM = "%Y-%m-%dT%H:%M:%S.%fZ"


class RecordClock(Struct):
    """The newest known time of each cell, or of each address that belongs to no cell."""

    newest: dict[str, str] = field(default_factory=dict)

    def learn(self, recorded: Recorded) -> None:
        for address, summaries in recorded.by_address.items():
            self._note((address,), max(summary.started for summary in summaries))

    def choose_start(self, addresses: Iterable[Address], now: datetime, after: Iterable[str] = ()) -> str:
        """Return the start time of an attempt that begins ``now`` (UTC): the clock's time, or a later one if needed to
        follow all known times and the records that it is made from (``after``)."""
        addresses = tuple(addresses)
        started = now.strftime(FORM)
        newest = max((*(self.newest.get(_choose_name(address), "") for address in addresses), *after), default="")
        if newest >= started:
            try:
                started = (datetime.fromisoformat(newest) + timedelta(microseconds=1)).strftime(FORM)
            except (ValueError, OverflowError):
                return started  # no pass wrote that time, and no time is later
        self._note(addresses, started)
        return started

    def _note(self, addresses: Iterable[Address], started: str) -> None:
        for name in map(_choose_name, addresses):
            self.newest[name] = max(self.newest.get(name, ""), started)


def _choose_name(address: Address) -> str:
    return str(address.cell or address)

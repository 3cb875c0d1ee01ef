"""The order of records where the clock of a machine was put back, or another's runs ahead.

The newest record of a cell counts, so what is measured now must never look older than what was there before.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import Struct, field

from reconciler.resource.kinds import Address
from reconciler.resource.records import Recorded

FORM = "%Y-%m-%dT%H:%M:%S.%fZ"


class RecordClock(Struct):
    """The newest time that is known of each cell; of what belongs to none, of each address."""

    newest: dict[str, str] = field(default_factory=dict)

    def know(self, recorded: Recorded) -> None:
        for address, summaries in recorded.by_address.items():
            self._know((address,), max(summary.started for summary in summaries))

    def choose_start(self, addresses: Iterable[Address], now: datetime, after: Iterable[str] = ()) -> str:
        """The time of an attempt that begins ``now`` (UTC): later than all that is known, and than what it is made from
        (``after``), else that of the clock."""
        addresses = tuple(addresses)
        started = now.strftime(FORM)
        newest = max((*(self.newest.get(_name(address), "") for address in addresses), *after), default="")
        if newest >= started:
            try:
                started = (datetime.fromisoformat(newest) + timedelta(microseconds=1)).strftime(FORM)
            except (ValueError, OverflowError):
                return started  # no pass wrote that time, and nothing comes after it
        self._know(addresses, started)
        return started

    def _know(self, addresses: Iterable[Address], started: str) -> None:
        for name in map(_name, addresses):
            self.newest[name] = max(self.newest.get(name, ""), started)


def _name(address: Address) -> str:
    return str(address.cell or address)

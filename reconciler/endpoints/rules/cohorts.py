"""Publication cohorts: two in each month, called YYYY-MM-C0 and YYYY-MM-C1 (submission rules §4.2, §4.6)."""

from __future__ import annotations

import re

from msgspec import Struct

from reconciler.errors import ReconcilerError

_NAME = re.compile(r"(?P<year>\d{4})-(?P<month>0[1-9]|1[0-2])-C(?P<index>[01])")
_IN_A_MONTH, _MONTHS = 2, 12


class Cohort(Struct, frozen=True, order=True):
    """In the order of time. ``index``: 0 or 1 within the month."""

    year: int
    month: int
    index: int

    def __str__(self) -> str:
        return f"{self.year:04d}-{self.month:02d}-C{self.index}"

    @classmethod
    def parse(cls, name: str) -> Cohort:
        """ReconcilerError for what is not the name of a cohort."""
        match = _NAME.fullmatch(name)
        if match is None:
            raise ReconcilerError(f"{name!r} is not a cohort", fix="write YYYY-MM-C0 or YYYY-MM-C1, as 2026-10-C1")
        return cls(int(match["year"]), int(match["month"]), int(match["index"]))

    def add(self, count: int) -> Cohort:
        """The cohort that many cohorts later."""
        months, index = divmod(self.index + count, _IN_A_MONTH)
        years, month = divmod(self.month - 1 + months, _MONTHS)
        return Cohort(self.year + years, month + 1, index)


def list_adoption_window(published: Cohort, length: int) -> tuple[Cohort, ...]:
    """The cohorts in which a seed set may be adopted, from the one it was published for on."""
    return tuple(published.add(count) for count in range(length))

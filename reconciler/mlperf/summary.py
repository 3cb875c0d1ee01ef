"""Reads ``mlperf_log_summary.txt``, the log for people. Verdicts rest on the detail log, this is compared with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.mlperf.log_names import SUMMARY

_COUNT = re.compile(r"(?P<count>No|\d+) (?P<kind>warning|error)s? encountered", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SummaryLine:
    """The text behind a key, and its 1-based line."""

    value: str
    line: int


@dataclass(frozen=True, slots=True)
class SummaryLog:
    """``values``: the first line of each key. ``warnings`` and ``errors`` are None when the closing counts are missing,
    which is so when the run did not end."""

    file: str
    values: Mapping[str, SummaryLine]
    warnings: int | None
    errors: int | None

    def get(self, key: str, default: str = "") -> str:
        found = self.values.get(key)
        return default if found is None else found.value

    def number(self, key: str) -> int:
        """The 1-based line of a key, 0 when it is absent."""
        found = self.values.get(key)
        return 0 if found is None else found.line

    @property
    def validity(self) -> str:
        """VALID, INVALID, or empty for an accuracy run."""
        return self.get("Result is")


def parse_summary(data: bytes, file: str = SUMMARY) -> SummaryLog:
    """Parse the bytes of a summary; lines that are no ``key : value`` are passed over."""
    values: dict[str, SummaryLine] = {}
    counts: dict[str, int] = {}
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), start=1):
        key, colon, value = line.partition(":")
        if colon:
            values.setdefault(key.strip(), SummaryLine(value.strip(), number))
        elif found := _COUNT.match(line):
            counts[found["kind"].lower()] = 0 if found["count"] == "No" else int(found["count"])
    return SummaryLog(file, values, counts.get("warning"), counts.get("error"))

"""Fingerprints that two runs never share, regardless of the dates in their logs: latencies in nanoseconds, and the
logger's clock.

A copied log with changed dates keeps them. Among 6,471 logs of two published rounds, no two different logs shared a
fingerprint.
"""

from __future__ import annotations

import hashlib
import re

from reconciler.loadgen.log import DetailLog

_LATENCY = re.compile(r"result_\S*latency_ns")
_LEAST = 4  # different latencies: two short runs may share fewer by chance


def find_fingerprints(log: DetailLog) -> tuple[str, ...]:
    """Return fingerprints that each identify the run. The result is empty for a log without measurements and without
    the logger's end time."""
    found = []
    latencies = [(key, log.get(key)) for key in log.index if _LATENCY.fullmatch(key)]
    if len({str(value) for _, value in latencies}) >= _LEAST:
        text = " ".join(f"{key}={value}" for key, value in sorted(latencies))
        found.append(f"latencies {hashlib.sha256(text.encode()).hexdigest()}")
    if log.index.began_at is not None and log.index.ended_at is not None:
        found.append(f"clock {log.index.began_at} {log.index.ended_at}")
    return tuple(found)

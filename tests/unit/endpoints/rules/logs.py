"""Logs of events as the official client writes them, of runs that are made up."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

_MILLISECOND = 10**6
_START = 5 * 10**12
CHUNKS = 10
TEXT, LONG = "abcdefgh", "abcdefgh" * 250


def make_events(paces: Sequence[float], users: int = 1) -> list[dict[str, Any]]:
    """Requests one after another, ``users`` of them under way at a time; of each the ms between two chunks."""
    found = [_event("session.start_performance_tracking", _START)]
    at = _START
    for start in range(0, len(paces), users):
        batch = range(start, min(start + users, len(paces)))
        found += [_event("sample.issued", at, number) for number in batch]
        for number in batch:
            at += 20 * _MILLISECOND
            found.append(_event("sample.recv_first", at, number))
            for _ in range(CHUNKS):
                at += round(paces[number] * _MILLISECOND)
                found.append(_event("sample.recv_non_first", at, number))
            found.append(_event("sample.complete", at, number, ["TextModelOutput", [TEXT, TEXT], None]))
    return [*found, _event("session.stop_performance_tracking", at)]


def make_even_events(count: int, duration: int, users: int) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """A run of ``duration`` ns with ``users`` requests under way throughout, and the totals that its summary has."""
    found = [_event("session.start_performance_tracking", 0)]
    slot, totals = duration // -(-count // users), {"ttft": 0, "latency": 0}
    for start in range(0, count, users):
        batch, issued = range(start, min(start + users, count)), start // users * slot
        done = duration if batch[-1] == count - 1 else issued + slot
        found += [_event("sample.issued", issued, number) for number in batch]
        for kind, at in (("recv_first", issued + slot // 4), ("recv_non_first", done)):
            found += [_event(f"sample.{kind}", at, number) for number in batch]
        found += [_event("sample.complete", done, number, ["TextModelOutput", LONG]) for number in batch]
        totals["ttft"] += slot // 4 * len(batch)
        totals["latency"] += (done - issued) * len(batch)
    return [*found, _event("session.stop_performance_tracking", duration)], totals


def _event(kind: str, at: int, number: int | str = "", data: object = None) -> dict[str, Any]:
    return {"event_type": kind, "timestamp_ns": at, "sample_uuid": str(number), "data": data}


def write_lines(events: Sequence[dict[str, Any]]) -> Iterator[bytes]:
    yield from (json.dumps(event).encode() + b"\n" for event in events)

"""A summary is held against every request of its run."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.rules.endpoints_program.event_log import LoggedRequest, LoggedRun, find_untold, parse_events
from reconciler.rules.endpoints_program.point import Distribution, MeasuredPoint
from tests.unit.mlperf.endpoints_program.logs import make_events, write_lines

_COUNT = 12


def read(users: int = 4) -> LoggedRun:
    return parse_events(write_lines(make_events([10] * _COUNT, users)))


def summarise(run: LoggedRun, **changes: Any) -> MeasuredPoint:
    point = MeasuredPoint(
        concurrency=4,
        load_pattern="concurrency",
        model="oss",
        dataset="performance",
        issued=len(run.requests),
        completed=len(run.done),
        failed=0,
        duration_ns=run.span,
        output_tokens=11 * len(run.done),
        ttft=Distribution(Decimal(sum(r.first - r.issued for r in run.requests))),
        tpot=Distribution(),
        latency=Distribution(Decimal(sum(r.done - r.issued for r in run.requests))),
        finished=True,
        streaming=True,
        stream_all_chunks=True,
        min_duration_ms=0,
    )
    return replace(point, **changes)


def test_a_summary_of_its_own_run_holds() -> None:
    assert not list(find_untold(read(), summarise(read())))
    assert [read(users).peak for users in (1, 4, 40)] == [1, 4, _COUNT]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"issued": 24}, "samples issued: expected 12, as events.jsonl shows, the summary says 24"),
        ({"completed": 11}, "samples completed: expected 12"),
        ({"duration_ns": 10**9}, "duration: expected 1.44 s, as events.jsonl shows, the summary says 1 s"),
        ({"ttft": Distribution(Decimal(10**9))}, "total TTFT: expected"),
        ({"latency": Distribution(Decimal(10**9))}, "total latency: expected"),
        ({"output_tokens": 11 * 100}, "the summary says 1100 tokens"),
    ],
)
def test_what_the_events_deny_is_named(changes: dict[str, Any], problem: str) -> None:
    (found,) = find_untold(read(), summarise(read(), **changes))
    assert problem in found


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize(("off", "told"), [(1_000_000, False), (1_000_001, True)])
def test_a_total_may_be_off_by_a_thousandth(sign: int, off: int, told: bool) -> None:
    request = LoggedRequest(0, first=10**9, done=10**9, size=400)
    run = LoggedRun(0, (request,), 1)
    stated = 10**9 + sign * off
    spread = Distribution(Decimal(stated))
    problems = list(find_untold(run, summarise(run, duration_ns=stated, ttft=spread, latency=spread)))
    names = ["duration", "total latency", "total TTFT"] if told else []
    assert [problem.partition(":")[0] for problem in problems] == names


def test_results_of_another_point_are_not_those_of_this_run() -> None:
    assert list(find_untold(read(4), summarise(read(2))))


def test_requests_before_the_phase_do_not_count() -> None:
    events = make_events([10] * _COUNT)
    warm = [{**event, "sample_uuid": f"w{event['sample_uuid']}"} for event in events[1:-1]]
    assert len(parse_events(write_lines([*warm, *events])).requests) == _COUNT


@pytest.mark.parametrize("line", [b"{\n", b"7\n", b'{"event_type": "sample.issued"}\n', b'{"timestamp_ns": true}\n'])
def test_a_line_that_is_no_event_is_named(line: bytes) -> None:
    lines = [*write_lines(make_events([10])), line]
    with pytest.raises(ValueError, match=f"line {len(lines)}"):
        parse_events(lines)


@pytest.mark.parametrize(
    ("request_", "nanoseconds"),
    [
        (LoggedRequest(issued=5, first=10, done=40, chunks=3), 10),
        (LoggedRequest(issued=5, first=10, done=40), 0),  # one chunk, which came first
        (LoggedRequest(issued=5, done=40, chunks=3), 0),  # nobody saw the first one
        (LoggedRequest(issued=5, first=10, chunks=3), 0),  # it never ended
    ],
)
def test_time_per_chunk_is_that_of_the_chunks_after_the_first(request_: LoggedRequest, nanoseconds: float) -> None:
    assert request_.per_chunk == nanoseconds


def event(kind: str, at: int, number: object = "", **more: object) -> bytes:
    return json.dumps({"event_type": kind, "timestamp_ns": at, "sample_uuid": number, **more}).encode()


def test_every_event_of_a_request_is_noted() -> None:
    lines = [
        event("sample.issued", 1, "warm"),
        event("sample.complete", 2, "warm"),
        event("session.start_performance_tracking", 10),
        b"  \n",
        event("sample.issued", 11, "one"),
        event("sample.issued", 12, 2),
        event("sample.recv_first", 13, "one"),
        event("sample.recv_non_first", 14, "one"),
        event("sample.recv_first", 15, "one"),
        event("sample.recv_non_first", 16, "one"),
        event("sample.complete", 17, "nobody"),
        event("sample.complete", 20, "one", data=["Text", {"text": "é!", "count": 3, "more": ["ab", None]}]),
        event("sample.complete", 30, "one", data="again"),
        event("sample.issued", 31, "three"),
        event("error.timeout", 32, "2"),
        event("sample.complete", 33, "2"),
        event("sample.other", 34, "three"),
        event("sample.issued", 35, "four"),
        event("session.stop_performance_tracking", 40),
        event("sample.issued", 41, "late"),
        event("sample.complete", 42, "three", data="xyz"),
    ]
    run = parse_events(lines)
    assert run == LoggedRun(
        10,
        (
            LoggedRequest(11, first=13, done=20, chunks=2, size=9),
            LoggedRequest(12, done=33, failed=True),
            LoggedRequest(31, done=42, size=3),
            LoggedRequest(35),
        ),
        peak=2,
    )
    assert [request.issued for request in run.done] == [11, 12, 31]
    assert run.span == 42 - 10
    assert parse_events([]) == LoggedRun(0, (), 0)
    assert (LoggedRun(7, (), 0).span, LoggedRun(7, (LoggedRequest(9),), 1).span) == (0, -7)
    first = LoggedRequest(5)
    assert (first.first, first.done, first.chunks, first.size, first.failed) == (0, 0, 0, 0, False)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "events.jsonl, line 2: it is not JSON (Expecting property name enclosed in double quotes: "),
        (b"[7]", "events.jsonl, line 2: an event has a timestamp_ns"),
        (b'{"timestamp_ns": 1.0}', "events.jsonl, line 2: an event has a timestamp_ns"),
        (b'{"timestamp_ns": true}', "events.jsonl, line 2: an event has a timestamp_ns"),
    ],
    ids=["no JSON", "no object", "a fraction", "a truth"],
)
def test_a_line_that_is_no_event_is_told_by_its_number(line: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_events([b"\n", line])
    assert str(caught.value).startswith(said)
    assert len(str(caught.value)) <= len("events.jsonl, line 2: it is not JSON ()") + 80


BASE = LoggedRun(
    0,
    (
        LoggedRequest(0, first=400, done=1000, chunks=3, size=8),
        LoggedRequest(100, done=900, size=4),
        LoggedRequest(200, failed=True),
    ),
    3,
)
TOLD = {
    "issued": 3,
    "completed": 2,
    "failed": 0,
    "duration_ns": 1000,
    "output_tokens": 8 + 4 + 2 * 32,
    "ttft": Distribution(Decimal(400)),
    "latency": Distribution(Decimal(1800)),
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"issued": 2}, ["samples issued: expected 3, as events.jsonl shows, the summary says 2"]),
        ({"completed": 1}, ["samples completed: expected 2, as events.jsonl shows, the summary says 1"]),
        ({"completed": 3}, ["samples completed: expected 2, as events.jsonl shows, the summary says 3"]),
        # the client may count what failed among what was completed, or beside it
        ({"completed": 1, "failed": 1, "ttft": Distribution(), "latency": Distribution()}, []),
        ({"failed": 1, "ttft": Distribution(), "latency": Distribution()}, []),
        ({"completed": 3, "failed": 1}, ["samples completed: expected 2, as events.jsonl shows, the summary says 3"]),
        (
            {"duration_ns": 998},
            ["duration: expected 1e-06 s, as events.jsonl shows, the summary says 9.98e-07 s"],
        ),
        (
            {"latency": Distribution(Decimal(1802))},
            ["total latency: expected 1.8e-06 s, as events.jsonl shows, the summary says 1.802e-06 s"],
        ),
        (
            {"ttft": Distribution(Decimal(401))},
            ["total TTFT: expected 4e-07 s, as events.jsonl shows, the summary says 4.01e-07 s"],
        ),
        ({"ttft": Distribution(Decimal(401)), "streaming": False}, []),
        (
            {"output_tokens": 8 + 4 + 2 * 32 + 1},
            ["output tokens: the responses have 76 bytes at most, the summary says 77 tokens"],
        ),
    ],
    ids=str,
)
def test_a_summary_is_denied_in_one_line_for_each_figure(changes: dict[str, Any], said: list[str]) -> None:
    assert list(find_untold(BASE, summarise(BASE, **{**TOLD, **changes}))) == said

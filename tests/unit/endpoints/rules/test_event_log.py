"""A summary is checked against every request of its run."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.endpoints.rules.event_log import LoggedRun, find_wrong_summary, parse_events
from reconciler.endpoints.rules.point import Distribution, MeasuredPoint
from tests.unit.endpoints.rules.good_point import RAN
from tests.unit.endpoints.rules.logs import make_events, write_lines

_COUNT = 12


def read(users: int = 4) -> LoggedRun:
    return parse_events(write_lines(make_events([10] * _COUNT, users)))


def summarise(run: LoggedRun, **changes: Any) -> MeasuredPoint:
    counts = {"issued": len(run.requests), "completed": len(run.done), "output_tokens": 11 * len(run.done)}
    waited, took = (sum(getattr(r, end) - r.issued for r in run.requests) for end in ("first", "done"))
    times = {"ttft": Distribution(Decimal(waited)), "latency": Distribution(Decimal(took)), "duration_ns": run.span}
    return replace(RAN, **{**counts, **times, **changes})


def test_a_summary_of_its_own_run_holds() -> None:
    assert not list(find_wrong_summary(read(), summarise(read())))
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
    (found,) = find_wrong_summary(read(), summarise(read(), **changes))
    assert problem in found


def test_results_of_another_point_are_not_those_of_this_run() -> None:
    assert list(find_wrong_summary(read(4), summarise(read(2))))


def test_requests_before_the_phase_do_not_count() -> None:
    events = make_events([10] * _COUNT)
    warm = [{**event, "sample_uuid": f"w{event['sample_uuid']}"} for event in events[1:-1]]
    assert len(parse_events(write_lines([*warm, *events])).requests) == _COUNT


@pytest.mark.parametrize("line", [b"{\n", b"7\n", b'{"event_type": "sample.issued"}\n', b'{"timestamp_ns": true}\n'])
def test_a_line_that_is_no_event_is_named(line: bytes) -> None:
    lines = [*write_lines(make_events([10])), line]
    with pytest.raises(ValueError, match=f"line {len(lines)}"):
        parse_events(lines)

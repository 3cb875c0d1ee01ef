"""Read events.jsonl of the official client: every request of a run, in order of occurrence (mlcommons/endpoints:
core/record.py). Summaries are checked against these events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from reconciler.endpoints.rules.point import MeasuredPoint
from reconciler.storage.json_files import parse_json

_BEGAN, _ENDED = "session.start_performance_tracking", "session.stop_performance_tracking"
_ISSUED, _FIRST, _CHUNK, _DONE = "sample.issued", "sample.recv_first", "sample.recv_non_first", "sample.complete"
_FAILED = "error."
_SECOND = 10**9
# Both totals are sums of whole nanoseconds; the client may record a sample's first chunk slightly later.
_NEAR = 1000
# Tokens of a response without bytes in its text, such as those of a chat template.
_FRAME = 32


class LoggedRequest(Struct):
    """Times are in ns of the client's clock, 0 for events that did not happen. ``chunks``: the number of chunks after
    the first one; ``size``: bytes of the response."""

    issued: int
    first: int = 0
    done: int = 0
    chunks: int = 0
    size: int = 0
    failed: bool = False

    @property
    def per_chunk(self) -> float:
        """Return the time per chunk after the first; 0 if there was only one. If the server streams single tokens, this
        is TPOT; otherwise it follows the same trend."""
        return (self.done - self.first) / self.chunks if self.chunks and self.done > self.first > 0 else 0.0


class LoggedRun(Struct, frozen=True):
    """The performance phase. ``requests``: in order of issue; ``peak``: the maximum number in progress at once."""

    began: int
    requests: tuple[LoggedRequest, ...]
    peak: int

    @property
    def done(self) -> tuple[LoggedRequest, ...]:
        return tuple(request for request in self.requests if request.done)

    @property
    def span(self) -> int:
        """Return the time from the start of the phase to the last response, which the client reports as the
        duration."""
        return max((request.done for request in self.requests), default=self.began) - self.began


def parse_events(lines: Iterable[bytes]) -> LoggedRun:
    """Parse the events. Raises ValueError with the number of the first invalid line."""
    requests: dict[str, LoggedRequest] = {}
    began, tracking, under_way, peak = 0, False, 0, 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        event = _parse(line, number)
        kind, at = str(event.get("event_type")), int(event["timestamp_ns"])
        if kind == _BEGAN:
            began, tracking = at, True
        elif kind == _ENDED:
            tracking = False
        elif kind == _ISSUED and tracking:
            requests[str(event.get("sample_uuid"))] = LoggedRequest(at)
            under_way += 1
            peak = max(peak, under_way)
        elif (request := requests.get(str(event.get("sample_uuid")))) is not None:
            under_way -= _note(request, kind, at, event)
    return LoggedRun(began, tuple(requests.values()), peak)


def _parse(line: bytes, number: int) -> Mapping[str, Any]:
    try:
        event = parse_json(line)
    except ValueError as error:
        said = " ".join(str(error).split())[:80]
        raise ValueError(f"events.jsonl, line {number}: it is not JSON ({said})") from error
    if not isinstance(event, dict) or type(event.get("timestamp_ns")) is not int:
        raise ValueError(f"events.jsonl, line {number}: an event has a timestamp_ns")
    return event


def _note(request: LoggedRequest, kind: str, at: int, event: Mapping[str, Any]) -> int:
    """Return 1 if the event ends the request, else 0."""
    if kind == _FIRST:
        request.first = request.first or at
    elif kind == _CHUNK:
        request.chunks += 1
    elif kind.startswith(_FAILED):
        request.failed = True
    elif kind == _DONE and not request.done:
        request.done, request.size = at, _count_bytes(event.get("data"))
        return 1
    return 0


def _count_bytes(found: object) -> int:
    """Return the bytes of all texts in a document."""
    if isinstance(found, str):
        return len(found.encode())
    parts = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    return sum(map(_count_bytes, parts))


def find_wrong_summary(run: LoggedRun, point: MeasuredPoint) -> Iterator[str]:
    """Yield the contradictions between a summary and the events of the same run."""
    if len(run.requests) != point.issued:
        yield f"samples issued: expected {len(run.requests)}, as events.jsonl shows, the summary says {point.issued}"
    if len(run.done) not in (point.completed, point.completed + point.failed):
        yield f"samples completed: expected {len(run.done)}, as events.jsonl shows, the summary says {point.completed}"
    shown = [("duration", run.span, point.duration_ns)]
    if not point.failed:
        shown.append(("total latency", sum(r.done - r.issued for r in run.done), int(point.latency.total)))
    if not point.failed and point.streaming:
        waited = sum(request.first - request.issued for request in run.done if request.first)
        shown.append(("total TTFT", waited, int(point.ttft.total)))
    for name, counted, stated in shown:
        if abs(counted - stated) * _NEAR > counted:
            expected = f"{counted / _SECOND:.6g} s, as events.jsonl shows"
            yield f"{name}: expected {expected}, the summary says {stated / _SECOND:.6g} s"
    most = sum(request.size + _FRAME for request in run.done)
    if point.output_tokens > most:
        yield f"output tokens: the responses have {most} bytes at most, the summary says {point.output_tokens} tokens"

"""Report the pass in progress from its files: its log, and the counters and readings of its children.

Cheap enough for a request every second during a timed run: a few small files, the ends of two logs, no process, no
lock.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from harness.contract import Progress, read_progress
from reconciler.execute.attempt import Attempt, read
from reconciler.execute.outcome import QueuedStep
from reconciler.loadgen.settings import read_min_duration
from reconciler.page.cell_report import parse_series
from reconciler.render.documents import convert_plain_value, render_document
from reconciler.render.progress import measure_pace
from reconciler.resource.kinds import PERFORMANCE, Address, Kind, find_upstream
from reconciler.storage.files import RepositoryPaths
from reconciler.storage.json_files import parse_json_lines
from reconciler.storage.untrusted_files import open_regular

_TAIL = 16 << 10  # bytes at the end of a log
_LINES = 12  # lines of it that are shown
_PASS_LOG = 4 << 20  # bytes read from a pass's log
_STEPS = 30  # maximum number of ended steps, the most recent ones
_READINGS = 120  # maximum number of readings, the latest of a run


def report_live(paths: RepositoryPaths, jobs: Sequence[QueuedStep] = ()) -> dict[str, Any]:
    """Report the pass in progress. ``jobs``: entries of a queue; those without a pass are shown."""
    log = _find_newest_log(paths.log)
    lines = _read_lines(log) if log is not None else []
    running = bool(lines) and lines[-1]["message"] not in _ENDED and _is_alive(log)
    attempts = [_report_attempt(attempt) for attempt in _list_attempts(paths)] if running else []
    steps = [line for line in lines if line["message"] == "step ended"]
    begun = {str(line.get("resource")) for line in lines if line["message"] == "step started"}
    due = dict(entry for line in lines if line["message"] == "steps due" for entry in _list_due(line))
    at_first = next((line for line in lines if line["message"] == "planned"), {})
    return render_document(
        "live",
        running=running,
        timed=any(attempt["timed"] for attempt in attempts),
        began=lines[0].get("time", "") if lines else "",
        ended="" if running or not lines else lines[-1].get("time", ""),
        outcome="" if running or not lines else lines[-1]["message"],
        id=str(lines[0].get("reconcile", "")) if lines else "",
        submission=str(at_first.get("submission", "")),
        steps=len(begun.union(due)),
        done=len({line.get("resource") for line in steps}),
        attempts=attempts,
        jobs=[
            {**convert_plain_value(job), **_describe_address(job.address)}
            for job in jobs
            if str(job.address) not in {attempt["address"] for attempt in attempts}
        ],
        next=[step for address, step in due.items() if address not in begun] if running else [],
        recent=[_describe_step(line) for line in reversed(steps[-_STEPS:])],
        problems=[_describe_step(line) for line in steps if line.get("problem")][-_STEPS:],
    )


def _list_due(line: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield steps by address, from a log line that another version may have written."""
    found = line.get("due")
    for entry in found if isinstance(found, list) else ():
        match entry:
            case [str(text), int() | float() | None as seconds] if (address := find_upstream(text)) is not None:
                yield text, {**_describe_address(address), "seconds": seconds}


def _describe_address(address: Address) -> dict[str, str]:
    return {"address": str(address), "label": address.label, "cell": str(address.cell) if address.cell else ""}


_ENDED = ("pass ended", "pass broken off")


def is_timed(paths: RepositoryPaths) -> bool:
    """Return True while a run is being timed in this repository."""
    return any(_is_timed(attempt, read_progress(attempt.counter)) for attempt in _list_attempts(paths))


def _is_timed(attempt: Attempt, progress: Progress | None) -> bool:
    kind, mode = attempt.intent.address.kind, attempt.intent.address.mode
    measured = kind is Kind.COMPLIANCE_TEST or (kind is Kind.RUN and mode == PERFORMANCE)
    return measured and progress is not None and progress.stage in ("warming up", "running")


def _list_attempts(paths: RepositoryPaths) -> Iterator[Attempt]:
    """Yield the attempts that have begun, have no result yet, and belong to a running pass."""
    try:
        folders = sorted(Path(entry.path) for entry in os.scandir(paths.attempts))
    except OSError:
        return
    for folder in folders:
        if not (folder / "result.json").exists() and _is_alive(folder):
            with contextlib.suppress(OSError):
                attempt = read(folder)
                if attempt is not None:
                    yield attempt


def _report_attempt(attempt: Attempt) -> dict[str, Any]:
    progress = read_progress(attempt.counter)
    address, values = attempt.intent.address, attempt.intent.inputs
    timed = _is_timed(attempt, progress)
    minimum = read_min_duration({name: value for name, (value, _) in values.items()}) / 1000 if timed else 0.0
    pace = measure_pace(progress, minimum) if progress else None
    return {
        **_describe_address(address),
        "timed": timed,
        "stage": progress.stage if progress else "starting",
        "done": progress.done if progress else 0,
        "expected": progress.expected if progress else 0,
        "seconds": progress.seconds if progress else 0.0,
        "idle": progress.idle if progress else 0.0,
        "minimum": minimum,
        "rate": pace.per_second if pace else None,
        "left": pace.left if pace else None,
        "fraction": pace.fraction if pace else None,
        "readings": parse_series(_read_tail(attempt.telemetry, 4 * _TAIL))[-_READINGS:],
        "log": _read_tail(attempt.log, _TAIL).decode("utf-8", "replace").splitlines()[-_LINES:],
    }


def _describe_step(line: dict[str, Any]) -> dict[str, Any]:
    """Describe an ended step, from a log line that another version may have written."""
    text = str(line.get("resource", ""))
    address = find_upstream(text)
    shown = {name: line.get(name, "") for name in ("time", "status", "seconds", "problem")}
    return {**shown, **(_describe_address(address) if address else {"address": text, "label": "", "cell": ""})}


def _find_newest_log(folder: Path) -> Path | None:
    """Find the newest log of a pass: the names of plan and audit logs begin with a word."""
    with contextlib.suppress(OSError):
        names = [entry.name for entry in os.scandir(folder) if entry.name[:1].isdigit()]
        return folder / max(names) if names else None
    return None


def _read_lines(path: Path) -> list[dict[str, Any]]:
    """Read the complete lines of a log. Of a very long log, read only the end."""
    return [row for row in parse_json_lines(_read_tail(path, _PASS_LOG)) if isinstance(row.get("message"), str)]


def _read_tail(path: Path, size: int) -> bytes:
    try:
        with open_regular(path) as stream:
            length = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, length - size))
            data = stream.read(size)
    except OSError:
        return b""
    return data if length <= size else data.partition(b"\n")[2]


def _is_alive(path: Path | None) -> bool:
    """Return True while the pass named by this file or folder runs: its ID ends with its process ID."""
    number = path.name.removesuffix(".jsonl").rpartition("-")[2] if path is not None else ""
    return number.isdigit() and psutil.pid_exists(int(number))

"""Check that a detail log's companions are complete and belong to its run. LoadGen writes one set, and a submission
publishes all of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from reconciler.errors import LogError
from reconciler.loadgen import keys
from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.log_files import ACCURACY_LOG, DETAIL, SUMMARY
from reconciler.loadgen.summary import find_differing, parse_summary
from reconciler.resource.records import LogFinding

_SLACK = 1.0  # seconds by which the clocks of the log and the command may differ
_ENDS = 64  # bytes at each end of an accuracy log, including LoadGen's brackets
MEASURED = "the clock of its machine was not set, and is that by which the command was timed"


def find_broken_files(folder: Path, log: DetailLog, *, answers: bool) -> Iterator[str]:
    """Yield each file of a complete run that is missing from ``folder`` or ends early. ``answers``: includes a log of
    answers."""
    path = folder / SUMMARY
    if not path.is_file():
        yield f"summary: expected that of the run, but there is no {SUMMARY} next to {DETAIL}"
    else:
        summary = parse_summary(path.read_bytes())
        if summary.errors is None or (log.validity and not summary.validity):
            yield f"summary: expected that of the run, {SUMMARY} is {'cut short' if path.stat().st_size else 'empty'}"
    if answers:
        yield from _find_broken_answers(folder / ACCURACY_LOG)


def find_other_summary(path: Path, log: DetailLog) -> Iterator[LogFinding]:
    """``PerformanceSummary::LogSummary`` and ``LogDetail`` (results.cc at v5.1.1) print the same values."""
    summary = parse_summary(path.read_bytes())
    for reading in summary.list_readings(log):
        for name, key in find_differing(reading, log):
            where = f"{SUMMARY} says {reading.get(name)} (line {reading.number(name)})"
            text = f"summary: {name}: {where}, {DETAIL} {log.get(key)} (line {log.find_line_number(key)})"
            yield LogFinding("summary.differs", text, SUMMARY, reading.number(name))


def find_excess_time(log: DetailLog, seconds: float) -> Iterator[LogFinding]:
    """Find a run that took longer than the ``seconds`` of its command. This is a doubt, because another clock measured
    them."""
    try:
        began, ended = log.started, log.ended
    except LogError:
        return
    logged = (ended - began).total_seconds() if began and ended else 0.0
    if logged > seconds + _SLACK:
        line = log.find_line_number(keys.POWER_END)
        where = f"LoadGen logged {logged:.6g} s (line {line})"
        text = f"duration: expected a run within the {seconds:.6g} s of the command, {where}"
        yield LogFinding("run.duration", text, DETAIL, line, MEASURED)


def _find_broken_answers(path: Path) -> Iterator[str]:
    if not path.is_file():
        yield f"answers: expected those of the run, but there is no {ACCURACY_LOG} with {DETAIL}"
        return
    size = path.stat().st_size
    with path.open("rb") as stream:
        head = stream.read(_ENDS)
        stream.seek(max(0, size - _ENDS))
        tail = stream.read()
    if not (head.lstrip().startswith(b"[") and tail.rstrip().endswith(b"]")):
        yield f"answers: expected those of the run, {ACCURACY_LOG} is {'cut short' if size else 'empty'}"

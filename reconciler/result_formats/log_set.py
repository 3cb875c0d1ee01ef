"""Whether the files beside a detail log belong to its run: LoadGen leaves one set, and a submission shows all of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from reconciler.errors import LogError
from reconciler.mlperf.loadgen.answers import find_wrong_answers
from reconciler.mlperf.loadgen.log import DetailLog
from reconciler.mlperf.loadgen.summary import find_differing, parse_summary
from reconciler.mlperf.log_files import ACCURACY_LOG, DETAIL, SUMMARY

_SLACK = 1.0  # seconds by which the clocks of the log and of the command may differ
_ENDS = 64  # bytes at each end of an accuracy log, in which LoadGen's brackets stand


def find_foreign_files(folder: Path, log: DetailLog, *, answers: bool) -> Iterator[str]:
    """Each way in which the set in ``folder`` is not that of one whole run. ``answers``: with a log of answers."""
    sets = sorted(path.name for path in folder.glob(f"*{DETAIL}"))
    if len(sets) > 1:
        yield f"logs: expected one set, there are {len(sets)}: {', '.join(sets[:4])}"
    yield from _summary(folder / SUMMARY, log)
    if answers:
        yield from _answers(folder / ACCURACY_LOG, log)


def find_excess_time(log: DetailLog, seconds: float) -> Iterator[str]:
    """No run takes longer than the ``seconds`` of the command that made it."""
    try:
        began, ended = log.started, log.ended
    except LogError as error:
        yield f"duration: {error}"
        return
    logged = (ended - began).total_seconds() if began and ended else 0.0
    if logged > seconds + _SLACK:
        where = f"LoadGen logged {logged:.6g} s (line {log.number('power_end')})"
        yield f"duration: expected a run within the {seconds:.6g} s of the command, {where}"


def _summary(path: Path, log: DetailLog) -> Iterator[str]:
    if not path.is_file():
        yield f"summary: expected that of the run, but there is no {SUMMARY} beside {DETAIL}"
        return
    summary = parse_summary(path.read_bytes())
    if summary.errors is None or (log.validity and not summary.validity):
        yield f"summary: expected that of the run, {SUMMARY} is {'cut short' if path.stat().st_size else 'empty'}"
    for reading in summary.list_readings(log):
        for name, key in find_differing(reading, log):
            where = f"{SUMMARY} says {reading.get(name)} (line {reading.number(name)})"
            yield f"summary: {name}: {where}, {DETAIL} {log.get(key)} (line {log.number(key)})"


def _answers(path: Path, log: DetailLog) -> Iterator[str]:
    if not path.is_file():
        yield f"answers: expected those of the run, but there is no {ACCURACY_LOG} beside {DETAIL}"
        return
    size = path.stat().st_size
    with path.open("rb") as stream:
        head = stream.read(_ENDS)
        stream.seek(max(0, size - _ENDS))
        tail = stream.read()
    if not (head.lstrip().startswith(b"[") and tail.rstrip().endswith(b"]")):
        yield f"answers: expected those of the run, {ACCURACY_LOG} is {'cut short' if size else 'empty'}"
        return
    with path.open("rb") as stream:
        yield from find_wrong_answers(stream, log)

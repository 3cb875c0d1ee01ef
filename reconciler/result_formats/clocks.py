"""A log that is what was asked for but for the machine's clock, which was set or ran at another speed meanwhile."""

from __future__ import annotations

from reconciler.errors import LogError
from reconciler.mlperf.loadgen.log import DetailLog
from reconciler.result_formats.format import Verdict

CLOCK = "clock"  # the class of the problem: of the machine, which may be over the next time
_SETTLE = "let time synchronisation settle before runs, or slew the clock where it steps it"
_REPEATED = "the run is repeated a few times, then by the next pass"
# How LoadGen begins its complaint of a run whose duration differs between the two, by more than a hundredth.
_DIFFERING = "PerfClock and system_clock differ"


def judge_dates(log: DetailLog, differing: list[str], moved: float) -> Verdict:
    """``differing``: what only dates contradict. ``moved``: seconds by which the child saw the clock set meanwhile; 0
    for one that saw nothing of it, as where dates were edited afterwards."""
    values = {"contradictions": differing}
    if not moved:
        problem = f"LoadGen's dates and its own clock contradict each other: {_tell(log)}; {'; '.join(differing)}"
        fix = f"see whether the clock of the machine was set, the log was edited, or LoadGen went on writing; {_SETTLE}"
        return Verdict(values, problem, "contradiction", fix)
    way = "forward" if moved > 0 else "back"
    said = f"the machine's clock was set {way} by {abs(moved):.6g} s while the run was on, as time synchronisation does"
    return Verdict(values, f"{said}: {_tell(log)}; {'; '.join(differing)}", CLOCK, f"{_SETTLE}; {_REPEATED}")


def judge_speeds(log: DetailLog) -> Verdict | None:
    """Of a log whose only errors are that LoadGen saw the machine's two clocks go apart; None of others."""
    errors = [(entry.line, " ".join(str(entry.value).split())) for entry in log.errors]
    if not errors or not all(text.startswith(_DIFFERING) for _, text in errors):
        return None
    said = "; ".join(f"{text} (line {line})" for line, text in errors)
    problem = f"the machine's clock was set, or its speed changed, while the run was on: LoadGen says {said}"
    return Verdict({"contradictions": [text for _, text in errors]}, problem, CLOCK, f"{_SETTLE}; {_REPEATED}")


def _tell(log: DetailLog) -> str:
    """The seconds of both, with their lines."""
    return ", and ".join(filter(None, (_tell_dates(log), _tell_counted(log))))


def _tell_dates(log: DetailLog) -> str:
    try:
        began, ended = log.started, log.ended
    except LogError:
        return ""
    if began is None or ended is None:
        return ""
    lines = f"(lines {log.number('power_begin')} and {log.number('power_end')})"
    return f"by its dates the run lasted {(ended - began).total_seconds():.6g} s {lines}"


def _tell_counted(log: DetailLog) -> str:
    counted = log.index.ended_at
    return "" if counted is None else f"its logger had run for {counted / 1000:.6g} s (line {log.number('power_end')})"

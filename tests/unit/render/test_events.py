"""The two views of a pass's events, and the numbers in them."""

from __future__ import annotations

import re
import sys
from io import StringIO

import pytest

from harness.contract import Progress
from reconciler.diff.change import Reason
from reconciler.execute.outcome import Message, Outcome, Status, StepProgress, StepsDue, StepStarted
from reconciler.render.live import Live
from reconciler.render.progress import (
    Failures,
    Lines,
    PassProgress,
    count_samples,
    measure_pace,
    name_step,
    render_event_part,
    render_progress_text,
)
from tests.unit.render.builders import ACCURACY, PERFORMANCE, step

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # what moves the cursor of a terminal
STEP = step(PERFORMANCE, reason=Reason.INPUT_CHANGED, seconds=700.0)
OTHER = step(ACCURACY, reason=Reason.INPUT_CHANGED, seconds=700.0)


def running(done: int, seconds: float, expected: int = 1000, stage: str = "running") -> Progress:
    return Progress(stage, done, expected, seconds, 0.0)


@pytest.mark.parametrize(
    ("progress", "minimum", "left"),
    [
        (running(500, 10.0), 0.0, 10.0),
        (running(500, 10.0), 600.0, 590.0),
        (running(990, 700.0), 600.0, 10 * 700 / 990),
        (running(5000, 100.0), 600.0, 500.0),
        (running(0, 3.0), 600.0, None),
        (running(0, 3.0, expected=0), 600.0, 597.0),
        (running(500, 10.0, stage="warming up"), 600.0, 10.0),
        (running(0, 0.0, expected=0, stage="starting"), 600.0, None),
    ],
    ids=[
        "samples",
        "duration",
        "samples after it",
        "more than expected",
        "nothing yet",
        "uncounted",
        "other stage",
        "start",
    ],
)
def test_time_left(progress: Progress, minimum: float, left: float | None) -> None:
    found = measure_pace(progress, minimum).left
    assert found == (None if left is None else pytest.approx(left))


def test_progress_text() -> None:
    assert render_progress_text(running(500, 5.0)) == "running, 500 of 1,000, 100/s, 5 s left"
    assert render_progress_text(running(0, 0.0, 0, "loading")) == "loading"


def open_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> StringIO:
    """Make standard output a terminal, and return what is written to it."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    written = StringIO()
    monkeypatch.setattr(written, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", written)
    return written


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_step_under_way_fits_its_line_with_the_time_left(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    written = open_terminal(monkeypatch, columns)
    with Live(colour=False) as view:
        view.report(StepStarted(STEP))
        view.report(StepProgress(STEP, running(500_000, 900.0, expected=1_000_000), 600.0))
    shown = [line for line in _show(written) if "left" in line]
    assert shown
    assert all("15 min left" in line and "Run performance" in line and len(line) <= columns for line in shown)


def _show(written: StringIO) -> list[str]:
    return _CONTROL.sub("", written.getvalue()).splitlines()


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_pass_and_what_waits_fit_their_lines(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    written = open_terminal(monkeypatch, columns)
    with Live(colour=False) as view:
        view.report(StepsDue((STEP, OTHER)))
        view.report(Message(f"waiting for {'another pass, ' * 12}which takes long", STEP))
    assert any("0 of 2 steps" in line for line in _show(written))
    assert "waiting for another" in " ".join(" ".join(_show(written)).split())
    assert all(len(line.rstrip()) <= columns for line in _show(written))


def test_an_ended_step_keeps_its_whole_name(monkeypatch: pytest.MonkeyPatch) -> None:
    written = open_terminal(monkeypatch, 80)
    with Live(colour=False) as view:
        view.report(StepStarted(STEP))
        view.report(Outcome(STEP, Status.DONE, message="125009 samples/s, VALID, 12.5% below the limit"))
    shown = _show(written)
    assert name_step(STEP) in " ".join(shown)
    assert all(len(line.rstrip()) <= 80 for line in shown)


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ("Processed prompts:  12%|#2 | 120/1000 [00:30<03:40,  4.00it/s]", (120, 1000, 30.0)),
        ("step 4,000 of 10,000", (4000, 10000, 90.0)),
        ("120/1000 samples", (120, 1000, 90.0)),
        ("11/28 10:02:03 INFO ready", (0, 0, 90.0)),
        ("300 of 200", (0, 0, 90.0)),
        ("ready", (0, 0, 90.0)),
    ],
)
def test_a_command_is_counted_by_what_it_prints(text: str, counted: tuple[int, int, float]) -> None:
    found = count_samples(Progress("running", 0, 0, 90.0, 0.0, text))
    assert (found.done, found.expected, found.seconds) == counted


def test_a_pass_counts_its_steps_and_its_time() -> None:
    progress = PassProgress(100.0)
    progress.take(StepsDue((STEP, OTHER)), 100.0)
    progress.take(StepStarted(STEP), 110.0)
    assert (progress.ended, progress.measure_left(110.0)) == (0, (1400.0, 0))
    progress.take(StepProgress(STEP, running(500, 10.0), 600.0), 120.0)
    assert progress.measure_left(120.0) == (1290.0, 0)
    progress.take(Outcome(STEP, Status.RETRY), 130.0)
    assert (progress.ended, progress.measure_left(130.0)) == (0, (1400.0, 0))
    progress.take(StepStarted(STEP), 130.0)
    progress.take(Outcome(STEP, Status.DONE), 900.0)
    assert (progress.ended, progress.measure_left(900.0)) == (1, (700.0, 0))
    assert progress.find_next() == OTHER
    progress.take(StepStarted(OTHER), 900.0)
    assert progress.find_next() is None
    assert progress.measure_left(1700.0)[0] == 0.0


def test_the_time_left_is_not_over_before_the_end() -> None:
    """A step without counter goes by its prediction, and says nothing once that is over."""
    assert measure_pace(running(0, 3.0, expected=0, stage="loading"), 600.0, 40.0).left == 40.0
    assert measure_pace(running(0, 90.0, expected=0, stage="loading"), 600.0, 0.0).left is None


def test_lines_begin_end_and_at_most_one_each_ten_seconds() -> None:
    now = [0.0]
    lines: list[str] = []
    with Lines(lines.append, clock=lambda: now[0]) as view:
        view.report(Message("took over a result"))
        view.report(StepStarted(STEP, 600.0, 2))
        for second in range(1, 26):
            now[0] = float(second)
            view.report(StepProgress(STEP, running(second, float(second)), 600.0))
        view.report(Outcome(STEP, Status.DONE, "107 samples/s, VALID", seconds=702.0))
    name = "closed/h200x8/3d-unet-99/Offline  Run performance"
    assert lines == [
        "took over a result",
        f"{name}: replace, attempt 2, about 11 min 40 s",
        f"{name}: running, 10 of 1,000, 1/s, 16 min 30 s left",
        f"{name}: running, 20 of 1,000, 1/s, 16 min 20 s left",
        f"{name}: done in 11 min 42 s, 107 samples/s, VALID",
    ]


def test_a_failure_shows_fix_and_log() -> None:
    lines: list[str] = []
    Lines(lines.append).report(Outcome(STEP, Status.FAILED, "out of memory", "lower batch_size", log="/r/child.log"))
    assert lines[0].endswith(
        "Run performance: failed: out of memory\n      fix: lower batch_size\n      log: /r/child.log"
    )


def test_a_step_past_its_expected_end_has_no_time_left() -> None:
    said = render_progress_text(running(0, 70.0, 0), 60.0)
    assert "expected" in said
    assert " left" not in said


def test_of_a_quiet_pass_only_what_failed_is_reported() -> None:
    lines: list[str] = []
    view = Failures(lines.append)
    for event in (StepStarted(STEP), StepProgress(STEP, running(1, 1.0)), Outcome(STEP, Status.DONE), Message("x")):
        view.report(event)
    assert lines == []
    view.report(Outcome(STEP, Status.FAILED, "out of memory"))
    view.report(Outcome(STEP, Status.BLOCKED, "no GPU"))
    assert [line.partition("Run performance: ")[2] for line in lines] == ["failed: out of memory", "blocked: no GPU"]


def test_live_prints_what_ended_without_a_terminal_too(capsys: pytest.CaptureFixture[str]) -> None:
    with Live(colour=False) as view:
        view.report(StepStarted(STEP))
        view.report(StepProgress(STEP, running(500, 5.0)))
        view.report(Message("[not markup]"))
        view.report(Outcome(STEP, Status.DONE, "VALID", seconds=2.0))
    out = capsys.readouterr().out
    assert "Run performance  done in 2 s, VALID" in out
    assert "[not markup]" in out


def test_events_as_json() -> None:
    events = (
        *(StepsDue((STEP,)), StepStarted(STEP), StepProgress(STEP, running(1, 1.0))),
        *(Outcome(STEP, Status.DONE), Message("x")),
    )
    assert [render_event_part(event)["event"] for event in events] == ["due", "began", "moved", "outcome", "note"]

"""What a watch says of a step that it tries again and again."""

from __future__ import annotations

import io
import json

import pytest

from reconciler.cli.shared.watch_output import WatchOutput
from reconciler.cli.shared.watch_report import WatchReport
from reconciler.controller.backoff import Backoff
from reconciler.controller.settings import WatchSettings
from reconciler.plan.plan import Step
from reconciler.planning import Options
from reconciler.resource.kinds import Kind
from tests.unit.diff.simulated import Wish, World, desire


@pytest.fixture
def step() -> Step:
    return next(s for s in World().plan(desire([Wish()])).steps if s.change.address.kind is Kind.RUN)


def tell(step: Step, kinds: list[str]) -> tuple[list[dict[str, object]], list[str]]:
    """The events and the lines of a quiet watch in which a step ends so: "" where it went well."""
    stream, lines, backoff = io.StringIO(), list[str](), Backoff()
    report = WatchReport(WatchOutput(lines.append, stream=stream, quiet=True), WatchSettings(Options()))
    for kind in kinds:
        if kind:
            report.report_next_try(step, backoff.failed("key", kind, 0.0))
        else:
            backoff.went_well("key")
    return [json.loads(line) for line in stream.getvalue().splitlines()], lines


def test_a_machine_whose_clocks_always_differ_is_told_once(step: Step) -> None:
    events, lines = tell(step, ["clock"] * 20)
    (event,) = events
    assert (event["event"], event["tries"], event["address"]) == ("clock", 4, str(step.change.address))
    assert "was set, or ran at another speed, in 4 runs in a row" in str(event["text"])
    assert "fix: let its time synchronisation settle" in str(event["text"])
    assert len([line for line in lines if "in 4 runs in a row" in line]) == 1
    assert len([line for line in lines if "next try in" in line]) == 20


def test_it_is_told_again_where_a_run_went_well_meanwhile(step: Step) -> None:
    assert len(tell(step, [*["clock"] * 5, "", *["clock"] * 5])[0]) == 2


def test_runs_that_ended_otherwise_are_not_counted(step: Step) -> None:
    kinds = ["failed", "resources", "clock", "clock", "clock"]
    assert tell(step, kinds)[0] == []
    (event,) = tell(step, [*kinds, "clock"])[0]
    assert event["tries"] == 4
    assert tell(step, [*kinds, "lost", "clock", "clock"])[0] == []


@pytest.mark.parametrize("kinds", [["clock"] * 3, ["resources"] * 9])
def test_what_may_be_over_the_next_time_is_no_event(kinds: list[str], step: Step) -> None:
    assert tell(step, kinds)[0] == []

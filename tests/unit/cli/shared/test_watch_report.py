"""What a watch says of a step that it tries again and again."""

from __future__ import annotations

import io
import json

import pytest

from reconciler.cli.watch import WatchOutput, WatchReport
from reconciler.plan.plan import Step
from reconciler.reconcile.planning import Options
from reconciler.resource.kinds import Kind
from reconciler.watch.backoff import Backoff
from reconciler.watch.settings import WatchSettings
from tests.unit.diff.simulated import Wish, World, desire


@pytest.fixture
def step() -> Step:
    return next(s for s in World().plan(desire([Wish()])).steps if s.change.address.kind is Kind.RUN)


def show(step: Step, kinds: list[str]) -> tuple[list[dict[str, object]], list[str]]:
    """The events and the lines of a quiet watch in which a step ends so: "" where it went well."""
    stream, lines, backoff = io.StringIO(), list[str](), Backoff()
    report = WatchReport(WatchOutput(lines.append, stream=stream, quiet=True), WatchSettings(Options()))
    for kind in kinds:
        if kind:
            report.report_next_try(step, backoff.record_failure("key", kind, 0.0))
        else:
            backoff.record_success("key")
    return [json.loads(line) for line in stream.getvalue().splitlines()], lines


def test_what_may_be_over_the_next_time_is_no_event(step: Step) -> None:
    events, lines = show(step, ["resources"] * 9)
    assert events == []
    assert len([line for line in lines if "next try in" in line]) == 9

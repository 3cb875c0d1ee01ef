"""What a pass says when it only rendered, and when git does not take what it recorded."""

from __future__ import annotations

import io
import json
import re
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from reconciler.cli.shared.run_pass import stop_cleanly
from reconciler.execute.outcome import Outcome, Status, StepsDue, StepStarted
from reconciler.plan.plan import Step
from reconciler.reconcile.planning import Options
from reconciler.resource.kinds import Kind
from reconciler.watch.report import WatchReport
from reconciler.watch.settings import Backoff, WatchSettings
from tests.unit.cli.conftest import Reconcile, edit, git
from tests.unit.diff.simulated import Wish, World, desire


class Finalized:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


RAISE = ("min_query_count: 512", "min_query_count: 640")


def test_a_pass_that_only_rendered_says_so(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, "  submitter: Tester\n", "  submitter: Tester\n  tree: submission\n")
    code, out, _ = reconcile()
    first, last = out.splitlines()
    files = sum(1 for path in (recorded / "submission").rglob("*") if path.is_file())
    assert (code, first) == (0, f"Rendered {files} files into {recorded.resolve()}/submission.")
    assert last.startswith("In sync: ")
    assert "Rendered" not in reconcile()[1]
    shutil.rmtree(recorded / "submission")
    assert reconcile.report()["rendered"] == files


def test_the_last_line_names_what_is_not_committed(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, *RAISE)
    out = reconcile.succeed()
    assert re.search(
        r"\nNot committed: specs/one\.yaml and 1 new record\. .* git add specs/one\.yaml state &&.*\n$", out
    )
    edit(recorded, *reversed(RAISE))
    assert "Not committed" not in reconcile.succeed()
    assert re.search(
        r"\nNot committed: 1 new record\. .* git add state && ", reconcile.succeed("--rerun", "kind=Score")
    )
    assert "Not committed" not in reconcile.succeed("--rerun", "kind=Score", "--commit")
    edit(recorded, *RAISE)
    assert "Not committed: specs/one.yaml. " in reconcile.succeed("--rerun", "kind=Score", "--commit")
    assert "Not committed" not in "".join(reconcile("--rerun", "kind=Score", "--json")[1:])
    assert reconcile.succeed("--rerun", "kind=Score", "--quiet") == ""


def test_outside_git_the_last_line_begins_with_init(declared: Path, reconcile: Reconcile) -> None:
    assert ": git init && git add specs/one.yaml state && git commit\n" in reconcile.succeed()


@pytest.mark.parametrize("as_json", [False, True])
def test_a_commit_without_repository_is_refused_first(declared: Path, reconcile: Reconcile, as_json: bool) -> None:
    code, out, err = reconcile("--commit", *(["--json"] if as_json else []))
    assert (code, out) == (1, "")
    assert "is not in a git repository" in err
    assert "git init" in err
    assert not (declared / "state").exists()


def refuse_commits(root: Path) -> None:
    hook = root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho not today >&2\nexit 1\n")
    hook.chmod(0o755)


def test_a_commit_that_fails_is_reported_after_the_report(recorded: Path, reconcile: Reconcile) -> None:
    refuse_commits(recorded)
    edit(recorded, *RAISE)
    code, out, err = reconcile("--commit")
    assert code == 1
    assert "This pass: " in out
    assert "Committed" not in out
    assert re.search(r"git commit: .*not today", err)
    code, out, err = reconcile("--commit", "--json")
    report = json.loads(out)
    assert (code, report["in_sync"], report["commit"]) == (1, True, None)
    assert "not today" in err


def test_the_message_counts_what_was_recorded(recorded: Path, reconcile: Reconcile) -> None:
    assert reconcile("--rerun", "kind=Score", "--commit")[0] == 0
    assert git(recorded, "log", "-1", "--format=%s") == "Record 1 outcome"
    assert reconcile("--rerun", "scenario=Offline", "--commit")[0] == 0
    assert re.fullmatch(r"Record [2-9] outcomes", git(recorded, "log", "-1", "--format=%s"))


def test_a_rerun_of_nothing_is_refused(recorded: Path, reconcile: Reconcile) -> None:
    code, out, err = reconcile("--rerun", "scenario=Nope")
    assert (code, out) == (1, "")
    assert "no declared cell matches scenario=Nope" in err
    assert "scenario: Offline" in err
    assert "contains another '='" in reconcile.refuse("--rerun", "kind=Score,cell=x")


@pytest.fixture
def step() -> Step:
    return next(s for s in World().plan(desire([Wish()])).steps if s.change.address.kind is Kind.RUN)


def show(step: Step, kinds: list[str]) -> tuple[list[dict[str, object]], list[str]]:
    """The events and the lines of a quiet watch in which a step ends so: "" where it went well."""
    stream, lines, backoff = io.StringIO(), list[str](), Backoff()
    report = WatchReport(lines.append, WatchSettings(Options()), stream=stream, quiet=True)
    for kind in kinds:
        if kind:
            report.report_next_try(step, backoff.record_failure("key", kind, 0.0))
        else:
            backoff.record_success("key")
    return [json.loads(line) for line in stream.getvalue().splitlines()], lines


def test_each_pass_of_a_watch_counts_its_own_steps(step: Step) -> None:
    lines: list[str] = []
    report = WatchReport(lines.append, WatchSettings(Options()))
    for number in (1, 2):
        report.report_pass_begun(number)
        for event in (StepsDue((step,)), StepStarted(step), Outcome(step, Status.DONE)):
            report.report_step(event)
    assert sum("step 1 of 1" in line for line in lines) == 2


def test_what_may_be_over_the_next_time_is_no_event(step: Step) -> None:
    events, lines = show(step, ["resources"] * 9)
    assert events == []
    assert len([line for line in lines if "next try in" in line]) == 9


def test_stop_cleanly_when_a_finalizer_is_interrupted_still_ends() -> None:
    finalized = [Finalized()]

    def run() -> None:
        with stop_cleanly():
            finalized.clear()  # Python discards the exception here
            time.sleep(60)

    before = signal.getsignal(signal.SIGTERM), sys.unraisablehook
    with pytest.raises(KeyboardInterrupt):
        run()
    assert before == (signal.getsignal(signal.SIGTERM), sys.unraisablehook)

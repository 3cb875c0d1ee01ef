"""The watchdog over a child, whatever it does when it hangs: real children."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.contract import ProbeRequest, Progress
from reconciler.execute import child, perform
from reconciler.execute.attempt import Attempt, Intent, attempt_id
from reconciler.execute.child import Watch, run_child
from reconciler.execute.outcome import Status
from reconciler.reconcile import Report
from reconciler.resource.kinds import Address, Kind
from tests.passes.repository import SPEC, Repository, make_repository

HANGS = "    import time\n    time.sleep(600)\n"


def hanging(root: Path, function: str) -> Repository:
    repository = make_repository(root)
    text = (root / "benchmarks/tiny.py").read_text(encoding="utf-8")
    repository.write("benchmarks/tiny.py", f"{text}\n\ndef {function}:\n{HANGS}")
    return repository


def retried(report: Report) -> dict[str, str]:
    """What was stopped, and why."""
    found = [outcome for outcome in report.outcomes if outcome.status is Status.RETRY]
    return {outcome.step.change.address.label: outcome.message for outcome in found}


def test_run_that_hangs_before_it_is_timed_is_ended(tmp_path: Path) -> None:
    pytest.importorskip("mlperf_loadgen")
    repository = hanging(tmp_path, "postprocess(outputs)")
    repository.edit(SPEC, "target_qps: 100,", "attempts: 1, run: {stall_timeout: 3 s}, target_qps: 100,")
    found = retried(repository.reconcile())
    assert set(found) == {"Run accuracy", "Run performance"}
    assert all("s while warming up" in message for message in found.values())


def test_build_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perform, "PATIENCE", 5.0)
    repository = hanging(tmp_path, "build_dataset(source, settings, output, counter)")
    repository.edit(SPEC, "target_qps: 100,", "attempts: 1, target_qps: 100,")
    found = retried(repository.reconcile())
    assert [message.partition(" for ")[0] for message in found.values()] == ["no progress"]
    assert all("s while building" in message for message in found.values())


def test_score_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlperf_loadgen")
    monkeypatch.setattr(perform, "PATIENCE", 5.0)
    repository = hanging(tmp_path, "score(log, dataset, output)")
    repository.edit(SPEC, "target_qps: 100,", "attempts: 1, target_qps: 100,")
    (message,) = retried(repository.reconcile()).values()
    assert "s while scoring" in message


def an_attempt(root: Path) -> Attempt:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    intent = Intent(
        id=attempt_id(now),
        address=Address(Kind.DATASET, "tiny"),
        key="key",
        revision=1,
        started="2026-01-01T00:00:00.000000Z",
        inputs={},
        settings={},
        locations={},
        upstream={},
        made_from={},
        spec={},
        dirty=False,
        marks=(),
        supersedes="",
        shared=(),
        tool="",
    )
    attempt = Attempt(root / "attempt", intent)
    attempt.folder.mkdir()
    return attempt


def started(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """The next child runs this code instead of the harness."""
    monkeypatch.setattr(child, "harness_command", lambda *_: [sys.executable, "-c", code])


def test_child_that_never_begins_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started(monkeypatch, "import time; time.sleep(600)")
    readings: list[Progress] = []
    result = run_child(an_attempt(tmp_path), ProbeRequest(), Watch(readings.append, start=0.1))
    assert (result.done, result.problem_class, readings) == (False, "resources", [])
    assert "did not begin its work" in result.problem


def test_watchdog_that_is_off_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started(monkeypatch, "import time; time.sleep(1)")
    result = run_child(an_attempt(tmp_path), ProbeRequest(), Watch(lambda _: None, stall=0.0, start=0.0))
    assert result.problem == "the child process ended with status 0 and no result"

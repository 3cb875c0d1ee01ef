"""How often a step is tried in one pass: real children of the small benchmark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from reconciler.execute.outcome import Status
from reconciler.reconcile import PassReport
from tests.passes.repository import SPEC, Repository, make_repository
from tests.shared import need

need("mlperf_loadgen")


def statuses(report: PassReport) -> Counter[tuple[str, str]]:
    return Counter((str(o.status), o.step.change.address.label) for o in report.outcomes)


def broken(root: Path, code: str, attempts: int) -> Repository:
    repository = make_repository(root)
    text = (root / "benchmarks/tiny.py").read_text(encoding="utf-8")
    repository.write("benchmarks/tiny.py", f"{text}\n\ndef postprocess(outputs):\n    {code}\n")
    repository.edit(SPEC, "target_qps: 100,", f"attempts: {attempts}, target_qps: 100,")
    return repository


def test_failure_is_tried_once_with_the_words_of_its_log(tmp_path: Path) -> None:
    repository = broken(tmp_path, "print('said before it failed'); return 1 / 0", attempts=3)
    report = repository.reconcile()
    found = [outcome for outcome in report.outcomes if outcome.status is Status.FAILED]
    assert [outcome.step.change.address.label for outcome in found] == ["Run accuracy", "Run performance"]
    assert all("ZeroDivisionError" in outcome.message for outcome in found)
    assert all("said before it failed" in outcome.log for outcome in found)
    assert repository.leftovers() == []


def test_transient_failure_is_tried_as_often_as_declared(tmp_path: Path) -> None:
    repository = broken(tmp_path, "raise MemoryError", attempts=3)
    found = statuses(repository.reconcile())
    assert (found["Retry", "Run accuracy"], found["Retry", "Run performance"]) == (3, 3)


def test_child_that_is_killed_says_by_which_signal(tmp_path: Path) -> None:
    repository = broken(tmp_path, "import os; os.kill(os.getpid(), 9)", attempts=1)
    report = repository.reconcile()
    failed = [o for o in report.outcomes if o.status is not Status.DONE]
    assert {o.step.change.address.label for o in failed} == {"Run accuracy", "Run performance"}
    assert all("signal 9" in o.message for o in failed)

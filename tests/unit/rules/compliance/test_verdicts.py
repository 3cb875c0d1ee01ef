"""Every case's verdict, on logs that the real LoadGen made."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from reconciler.loadgen.log_files import COMPLIANCE
from reconciler.rules.compliance.definition import AuditVerdict, RunLogs, VerdictInputs
from reconciler.rules.compliance.judging import judge
from tests.kept_logs import unpack
from tests.shared import make_once
from tests.unit.rules.compliance.cases import CASES, Case
from tests.unit.rules.compliance.runs import ANSWERS, DETAIL, SUMMARY

BY_SPEED = {
    "TEST01-more-than-10-percent-slower",
    "TEST01-more-than-10-percent-faster",
    "TEST01-server-slower",
    "TEST01-single-stream-short-more",
    "TEST01-single-stream-long-11-percent",
    "TEST01-multi-stream-long-15-percent",
    "TEST04-offline-10-percent-faster",
    "TEST04-offline-faster",
    "TEST04-server-faster",
    "TEST04-single-stream-25-percent-faster",
    "TEST04-single-stream-very-short-15-percent-faster",
    "TEST04-multi-stream-30-percent-faster",
}  # nothing is wrong but that two runs were not equally fast
LIMITS = {"threshold": "least_accuracy", "least": "least_mean_tokens", "most": "most_mean_tokens"}


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_once(tmp_path_factory, "kept-compliance", partial(unpack, "compliance"))


def logs(folder: Path) -> RunLogs:
    """The logs that a folder has; the accuracy log only where there is something in it to read."""
    whole = folder / ANSWERS

    def lines() -> list[bytes]:
        return whole.read_bytes().splitlines()

    return RunLogs(_bytes(folder / DETAIL), _bytes(folder / SUMMARY), lines if whole.exists() else None)


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def judged(case: Case, folder: Path) -> AuditVerdict:
    options = case.options
    report = options.get("report")
    question = VerdictInputs(
        audit=logs(folder / "audit"),
        performance=logs(folder / "performance/run_1"),
        accuracy=logs(folder / "accuracy"),
        scenario=options.get("scenario", ""),
        dtype=options.get("dtype", ""),
        eos_token_id=options.get("eos", 2),
        limits={LIMITS[name]: value for name, value in options.get("limits", {}).items()},
        reports={} if report is None else {COMPLIANCE: report},
    )
    return judge(case.test, question)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_verdict(case: Case, runs: Path, tmp_path: Path) -> None:
    case.lay_out(runs, tmp_path)
    verdict = judged(case, tmp_path)
    assert verdict.passed is case.passes, verdict.reasons
    assert verdict.by_speed is (case.id in BY_SPEED)
    texts = "".join(verdict.files.values())
    if case.test == "TEST06":
        checks = [line for line in texts.splitlines() if " check pass: " in line]
        assert all(line.endswith(("True", "Skipped")) for line in checks) is case.passes
    else:
        passing = [name for name, text in verdict.files.items() if "TEST PASS" in text.splitlines()]
        assert (len(passing) == len(verdict.files)) is case.passes
        assert all("TEST PASS" not in text for name, text in verdict.files.items() if name not in passing)

"""Which result sets of the endpoints harness are new, and which files belong to one."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.contract import CommandRequest
from harness.verbs.collecting_results import collect_results, collect_run

SINCE = datetime(2026, 11, 20, 12, tzinfo=UTC)
CLOCK = 10**12  # ns since this machine started


def result(folder: Path, began: int = 0, written: datetime = SINCE + timedelta(seconds=9)) -> Path:
    """A set as the harness leaves it, with the phases of a compliance test behind it."""
    for name in ("config.yaml", "audit/reference/config.yaml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("type: offline\n", encoding="utf-8")
    for name in ("performance", "audit/reference/performance"):
        path = folder / name / "result_summary.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"test_started_at": began}), encoding="utf-8")
        os.utime(path, (written.timestamp(), written.timestamp()))
    (folder / "audit/audit_output_caching_test.json").write_text("{}", encoding="utf-8")
    return folder


UNIX = int(SINCE.timestamp() * 1e9)


@pytest.mark.parametrize(
    ("began", "written", "new"),
    [
        pytest.param(0, 9, True, id="written since"),
        pytest.param(0, -9, False, id="written before"),
        pytest.param(UNIX + 10**9, 9, True, id="stated since"),
        pytest.param(UNIX - 10**9, 9, False, id="stated before"),
        pytest.param(CLOCK + 10**9, 9, True, id="since, by the monotonic clock"),
        pytest.param(CLOCK - 10**9, 9, False, id="before, by the monotonic clock"),
    ],
)
def test_which_sets_are_new(tmp_path: Path, began: int, written: int, new: bool) -> None:
    result(tmp_path / "run/a", began, SINCE + timedelta(seconds=written))
    found = collect_results(tmp_path / "run", SINCE, CLOCK, tmp_path / "run", tmp_path / "output")
    assert (found.folder is not None) is new
    assert found.problem.startswith("" if new else "start: expected a run at or after 2026-11-20 12:00:00 UTC")


def test_a_test_behind_the_run_belongs_to_it(tmp_path: Path) -> None:
    result(tmp_path / "run/a")
    found = collect_results(tmp_path / "run", SINCE, CLOCK, tmp_path / "run", tmp_path / "output")
    assert found.problem == ""
    brought = {path.relative_to(tmp_path / "output").as_posix() for path in (tmp_path / "output").rglob("*.*")}
    own = {"config.yaml", "result_summary.json", "audit/audit_output_caching_test.json"}
    assert brought == {*own, "audit/reference/performance/result_summary.json"}


def test_two_sets_are_kept_apart(tmp_path: Path) -> None:
    result(tmp_path / "run/a")
    result(tmp_path / "run/b")
    found = collect_results(tmp_path / "run", SINCE, CLOCK, tmp_path / "run", tmp_path / "output")
    assert found.problem == "result sets: expected one, the command left 2: a, b"
    assert {path.parent.name for path in (tmp_path / "output").glob("set-*/result_summary.json")} == {"set-1", "set-2"}


@pytest.mark.parametrize("states", [False, True])
def test_a_set_that_was_made_after_the_clock_was_set_back_is_new(tmp_path: Path, states: bool) -> None:
    """The command began at a time that is yet to come by the clock that dates its results."""
    now = datetime.now(UTC)
    result(tmp_path / "run/a", int(now.timestamp() * 1e9) if states else 0, now)
    ahead = (now + timedelta(days=365)).isoformat()
    request = CommandRequest(
        purpose="run",
        command=("true",),
        cwd=".",
        run_dir=str(tmp_path / "run"),
        output=str(tmp_path / "output"),
        counter="counter",
        logs=str(tmp_path / "run"),
        since=ahead,
        results="endpoints",
    )
    assert collect_run(request, time.monotonic_ns() - 10**9, {}).folder == tmp_path / "run/a"

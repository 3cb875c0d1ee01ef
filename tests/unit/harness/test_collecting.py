"""Which of several logs is the one of this attempt."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.verbs.collecting import Collected, collect, list_stamps

SINCE = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


def write_log(folder: Path, began: datetime, note: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "mlperf_log_detail.txt"
    stamp = began.strftime("%m-%d-%Y %H:%M:%S.000")
    path.write_text(f':::MLLOG {{"key": "power_begin", "value": "{stamp}"}}{note}\n', encoding="utf-8")
    return path


def take(root: Path, before: dict[Path, tuple[int, int]]) -> Collected:
    return collect(root / "logs", SINCE, root / "run", root / "output", before)


@pytest.mark.parametrize("behind", [timedelta(seconds=1), timedelta(hours=2), timedelta(days=366)])
def test_a_log_that_was_written_counts_though_its_clock_is_behind(tmp_path: Path, behind: timedelta) -> None:
    write_log(tmp_path / "logs/one", SINCE - behind)
    assert take(tmp_path, {}) == Collected(tmp_path / "logs/one")
    assert (tmp_path / "output/mlperf_log_detail.txt").is_file()


def test_a_log_that_was_there_already_is_of_an_earlier_run(tmp_path: Path) -> None:
    write_log(tmp_path / "logs/one", SINCE - timedelta(hours=2))
    found = take(tmp_path, list_stamps(tmp_path / "logs"))
    assert found.folder is None
    assert found.problem.startswith("start: ")


def test_a_log_that_was_overwritten_is_of_this_run(tmp_path: Path) -> None:
    write_log(tmp_path / "logs/one", SINCE - timedelta(days=2))
    before = list_stamps(tmp_path / "logs")
    write_log(tmp_path / "logs/one", SINCE - timedelta(days=1), note=" again")
    assert take(tmp_path, before) == Collected(tmp_path / "logs/one")


def test_a_log_of_this_time_is_taken_before_an_older_one_that_was_copied(tmp_path: Path) -> None:
    write_log(tmp_path / "logs/old", SINCE - timedelta(days=2))
    write_log(tmp_path / "logs/new", SINCE + timedelta(seconds=3))
    assert take(tmp_path, {}) == Collected(tmp_path / "logs/new")


def test_two_older_logs_that_were_written_are_two_runs(tmp_path: Path) -> None:
    write_log(tmp_path / "logs/a", SINCE - timedelta(days=2))
    write_log(tmp_path / "logs/b", SINCE - timedelta(days=1))
    assert take(tmp_path, {}).problem.startswith("log sets: ")


def test_a_log_of_an_earlier_run_by_a_clock_that_ran_ahead_is_not_this_run_s(tmp_path: Path) -> None:
    write_log(tmp_path / "logs/old", SINCE + timedelta(days=1))
    before = list_stamps(tmp_path / "logs")
    assert take(tmp_path, before).problem.startswith("start: ")
    write_log(tmp_path / "logs/new", SINCE + timedelta(seconds=3))
    assert take(tmp_path, before) == Collected(tmp_path / "logs/new")

"""Which of several logs is the one of this attempt."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.verbs.collecting import Collected, collect, list_stamps

SINCE = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


def write_log(folder: Path, began: datetime, note: str = "", name: str = "mlperf_log_detail.txt") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
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


def test_two_older_logs_that_were_written_are_two_runs(tmp_path: Path) -> None:
    write_log(tmp_path / "logs/a", SINCE - timedelta(days=2))
    write_log(tmp_path / "logs/b", SINCE - timedelta(days=1))
    assert take(tmp_path, {}).problem.startswith("log sets: ")


def test_warm_ups_in_folders_below_are_no_runs(tmp_path: Path) -> None:
    for number, name in enumerate(("warmup", "warmup/second", "x/y")):
        write_log(tmp_path / "logs/run" / name, SINCE + timedelta(seconds=number))
    write_log(tmp_path / "logs/run", SINCE + timedelta(seconds=9))
    assert take(tmp_path, {}) == Collected(tmp_path / "logs/run")
    assert [path.name for path in (tmp_path / "output").iterdir()] == ["mlperf_log_detail.txt"]


@pytest.mark.parametrize(
    ("other", "seconds"),
    [("run/later", 10), ("run/at once", 9), ("beside", 1), (".", 1)],
)
def test_a_run_that_is_later_or_elsewhere_is_no_warm_up(tmp_path: Path, other: str, seconds: int) -> None:
    write_log(tmp_path / "logs/run", SINCE + timedelta(seconds=9))
    write_log(tmp_path / "logs" / other, SINCE + timedelta(seconds=seconds), note=" another")
    found = take(tmp_path, {})
    assert found.folder is None
    assert found.problem.startswith("log sets: ")


def write_dated(folder: Path, began: datetime) -> None:
    """As LoadGen names them with ``prefix_with_datetime``."""
    prefix = f"mlperf_log_{began:%Y-%m-%dT%H:%M:%SZ}_"
    write_log(folder, began, name=f"{prefix}detail.txt")
    for name in ("summary.txt", "accuracy.json"):
        (folder / f"{prefix}{name}").write_text(str(began), encoding="utf-8")


def test_logs_with_the_date_of_the_run_in_their_names_are_brought_under_the_usual_ones(tmp_path: Path) -> None:
    runs = SINCE - timedelta(days=1), SINCE + timedelta(seconds=1)
    write_dated(tmp_path / "logs", runs[0])
    before = list_stamps(tmp_path / "logs")
    write_dated(tmp_path / "logs", runs[1])
    assert take(tmp_path, before) == Collected(tmp_path / "logs")
    brought = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "output").iterdir()}
    assert set(brought) == {"mlperf_log_detail.txt", "mlperf_log_summary.txt", "mlperf_log_accuracy.json"}
    assert brought["mlperf_log_summary.txt"] == str(runs[1])


def test_two_dated_runs_of_one_attempt_are_two_sets(tmp_path: Path) -> None:
    for seconds in (1, 2):
        write_dated(tmp_path / "logs", SINCE + timedelta(seconds=seconds))
    found = take(tmp_path, {})
    assert found.problem.startswith("log sets: ")
    kept = sorted(path.relative_to(tmp_path / "output").as_posix() for path in tmp_path.glob("output/*/*detail.txt"))
    assert kept == ["set-1/mlperf_log_detail.txt", "set-2/mlperf_log_detail.txt"]


def test_a_name_that_nothing_of_loadgens_explains_is_no_set(tmp_path: Path) -> None:
    write_log(tmp_path / "logs", SINCE, name="mlperf_log_detail_second.txt")
    assert take(tmp_path, {}).problem.startswith("log sets: ")


def test_a_log_of_an_earlier_run_by_a_clock_that_ran_ahead_is_not_this_run_s(tmp_path: Path) -> None:
    write_log(tmp_path / "logs/old", SINCE + timedelta(days=1))
    before = list_stamps(tmp_path / "logs")
    assert take(tmp_path, before).problem.startswith("start: ")
    write_log(tmp_path / "logs/new", SINCE + timedelta(seconds=3))
    assert take(tmp_path, before) == Collected(tmp_path / "logs/new")

"""Which of several logs is the one of this attempt."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.__main__ import _report
from harness.contract import CommandRequest
from harness.errors import HarnessError
from harness.verbs import collecting
from harness.verbs.code_folder import list_created, list_entries
from harness.verbs.collecting import Collected, collect, list_stamps
from harness.verbs.collecting_results import collect_results, collect_run
from harness.verbs.command import audit_config

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


def take_results(root: Path) -> Collected:
    return collect_results(root / "run", SINCE, CLOCK, root / "run", root / "output")


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
    found = take_results(tmp_path)
    assert (found.folder is not None) is new
    assert found.problem.startswith("" if new else "start: expected a run at or after 2026-11-20 12:00:00 UTC")


def test_a_test_behind_the_run_belongs_to_it(tmp_path: Path) -> None:
    result(tmp_path / "run/a")
    found = take_results(tmp_path)
    assert found.problem == ""
    brought = {path.relative_to(tmp_path / "output").as_posix() for path in (tmp_path / "output").rglob("*.*")}
    own = {"config.yaml", "result_summary.json", "audit/audit_output_caching_test.json"}
    assert brought == {*own, "audit/reference/performance/result_summary.json"}


def test_two_sets_are_kept_apart(tmp_path: Path) -> None:
    result(tmp_path / "run/a")
    result(tmp_path / "run/b")
    found = take_results(tmp_path)
    assert found.problem == "result sets: expected one, the command wrote 2: a, b"
    assert {path.parent.name for path in (tmp_path / "output").glob("set-*/result_summary.json")} == {"set-1", "set-2"}


def ask_run(folder: Path, **more: str) -> CommandRequest:
    return CommandRequest(
        purpose="run",
        command=("true",),
        cwd=".",
        run_dir=str(folder / "run"),
        output=str(folder / "output"),
        counter="counter",
        logs=str(folder / "run"),
        **more,
    )


@pytest.mark.parametrize("states", [False, True])
def test_a_set_that_was_made_after_the_clock_was_set_back_is_new(tmp_path: Path, states: bool) -> None:
    """The command began at a time that is yet to come by the clock that dates its results."""
    now = datetime.now(UTC)
    result(tmp_path / "run/a", int(now.timestamp() * 1e9) if states else 0, now)
    ahead = (now + timedelta(days=365)).isoformat()
    request = ask_run(tmp_path, since=ahead, results="endpoints")
    assert collect_run(request, time.monotonic_ns() - 10**9, {}).folder == tmp_path / "run/a"


@pytest.mark.parametrize("written", ["node_TRT/net/Offline", "", "node/net/Offline"])
def test_a_conf_of_a_system_of_another_name_is_named(written: str, tmp_path: Path) -> None:
    write_log(tmp_path / "run", SINCE)
    expected, there = tmp_path / "confs/node/net/Offline/user.conf", tmp_path / "confs" / written / "user.conf"
    there.parent.mkdir(parents=True)
    there.write_text("*.Offline.target_qps = 1\n")
    conf = str(tmp_path / "user.conf")
    request = ask_run(tmp_path, since=SINCE.isoformat(), user_conf=conf, user_conf_at=str(expected))
    problem = f"user.conf: the command wrote none at {expected}"
    named = f"{problem}, but one at {there}: correct the system's name, or harness.user_conf_at"
    found = collecting.collect_run(request, 0, {}).problem
    assert found == ("" if there == expected else named if written else problem)


def test_new_files_are_named_by_the_topmost_new_folder(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/run.py").write_text("1")
    before = list_entries(tmp_path)
    for name in (
        "out/a/b.json",
        "src/tuned.json",
        "build/logs/x",
        "src/__pycache__/run.pyc",
        "src/mlperf_log_trace.json",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "src/run.py").write_text("2")
    assert list_created(before, list_entries(tmp_path)) == ["out/", "src/tuned.json"]


@pytest.mark.parametrize("settings", ["*.*.mode = 2\n", ""], ids=["a test", "another run"])
@pytest.mark.parametrize("left", ["# its own\n*.*.mode = 2\n", None], ids=["replaced", "removed"])
def test_nothing_stays_behind_where_files_are_placed(settings: str, left: str | None, tmp_path: Path) -> None:
    (given := tmp_path / "settings").write_text(settings)
    (cwd := tmp_path / "code").mkdir()
    placed = cwd / "audit.config"
    with audit_config(str(given) if settings else "", cwd, str(tmp_path / "lock")) as clear:
        assert placed.exists() is bool(settings)
        placed.unlink(missing_ok=True)
        if left is not None:
            placed.write_text(left)
        clear()
        assert not placed.exists()
    assert not placed.exists()


def test_a_file_of_a_command_that_is_given_a_path_is_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    placed = tmp_path / "audit.config"
    with audit_config("", tmp_path, ""):
        placed.write_text("*.*.mode = 2\n")
    assert placed.exists()
    with pytest.raises(HarnessError) as caught, audit_config("", tmp_path, ""):
        pytest.fail("the run began with it")
    assert str(placed) in caught.value.problem
    assert "audit_config: placed" in caught.value.fix
    _report(caught.value, caught.value)
    log = capsys.readouterr().err
    assert "contextlib" not in log
    assert log.endswith(f"fix: {caught.value.fix}\n")

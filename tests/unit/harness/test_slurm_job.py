"""A job of Slurm that takes over attempts whose own jobs wait: which of them, and each of them once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.child.slurm_job import claim
from harness.contract import WAITING, ProbeRequest, Result, WaitingAttempt
from tests.processes import wait_for

ROOT = Path(__file__).parents[3]
PLACED = "slurm 7\nn1\n"


def lay_out(folder: Path, group: str = "g", seconds: float = 1.0, request: str = "") -> Path:
    """An attempt that waits."""
    (folder / "output").mkdir(parents=True)
    path, result = folder / "request.json", folder / "result.json"
    if request:
        path.write_text(request)
    else:
        ProbeRequest().write(path)
    waiting = WaitingAttempt(arguments=("probe", str(path), str(result)), log=str(folder / "log"), seconds=seconds)
    waiting.write(folder / WAITING.format(group))
    return folder


def run_job(
    own: Path,
    *,
    seconds: float = 60.0,
    left: float = 3600.0,
    program: Sequence[str] = ("-m", "harness.child.slurm_job"),
) -> int:
    """As Slurm does, once the job's script has begun its attempt."""
    (own / "begun").mkdir()
    (own / "placed").write_text(PLACED)
    words = ("g", f"{seconds:g}", "probe", str(own / "request.json"), str(own / "result.json"))
    variables = {"SLURM_JOB_ID": "7", "SLURM_JOB_END_TIME": str(int(time.time() + left))}
    return subprocess.run(
        [sys.executable, "-P", *program, *words],
        cwd=own,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **variables},
        check=False,
    ).returncode


def test_job_takes_over_what_waits_in_its_group_and_fits(tmp_path: Path) -> None:
    own, *taken = (lay_out(tmp_path / name) for name in ("1", "2", "4"))
    left = (
        lay_out(tmp_path / "3", group="other"),
        lay_out(tmp_path / "5", seconds=1000.0),
        lay_out(tmp_path / "6", request="{"),
        lay_out(tmp_path / "7"),
    )
    (tmp_path / "0").mkdir()
    assert run_job(own) == 0
    assert all(Result.read(folder / "result.json").done for folder in (own, *taken))
    assert [(folder / "placed").read_text() for folder in taken] == [PLACED] * 2
    assert [(folder / "begun").read_text() for folder in taken] == [PLACED] * 2, "says at once who took it"
    assert not any((folder / WAITING.format("g")).exists() for folder in taken)
    failed, after = left[2:]
    assert not Result.read(failed / "result.json").done
    assert not any((folder / "begun").exists() for folder in (*left[:2], after)), "a node that fails one takes no more"


_HARVESTING = """
import shutil, sys
from harness.contract import Result
from harness.child.slurm_job import main
write = Result.write
def write_and_record(self, path):
    write(self, path)
    path.rename(path.parents[1] / f"{path.parent.name}.json")
    shutil.rmtree(path.parent)
Result.write = write_and_record
sys.exit(main(sys.argv[1:]))
"""


def test_pass_that_records_and_removes_an_attempt_at_once_does_not_end_the_taking(tmp_path: Path) -> None:
    own, *_ = (lay_out(tmp_path / name) for name in "123")
    assert run_job(own, program=("-c", _HARVESTING)) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.json", "2.json", "3.json"]


@pytest.mark.parametrize(("seconds", "left"), [(0.0, 3600.0), (60.0, 61.0)])
def test_job_without_time_takes_nothing(tmp_path: Path, seconds: float, left: float) -> None:
    own, other = lay_out(tmp_path / "1"), lay_out(tmp_path / "2")
    assert run_job(own, seconds=seconds, left=left) == 0
    assert (own / "result.json").exists()
    assert not (other / "begun").exists()


def test_attempt_that_is_gone_or_begun_is_not_taken(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        claim(tmp_path / "gone", b"")
    (tmp_path / "begun").mkdir()
    assert not claim(tmp_path, b"")
    assert [path.name for path in tmp_path.iterdir()] == ["begun"]


_LEAVING = """
import subprocess
from harness.child.slurm_job import is_quiet
print(is_quiet())
left = subprocess.Popen(["sleep", "60"])
print(is_quiet())
left.kill()
"""


def test_what_an_attempt_left_running_ends_the_taking() -> None:
    words = [sys.executable, "-c", _LEAVING]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["True", "False"]


_TAKER = """
import sys, time
from pathlib import Path
from harness.child.slurm_job import take_next
attempts, me = Path(sys.argv[1]), sys.argv[2]
(attempts.parent / f"ready-{me}").touch()
while not (attempts.parent / "go").exists():
    time.sleep(0.001)
while (found := take_next(attempts, "g", f"slurm {me}\\n".encode(), lambda: 9.0)) is not None:
    with Path(found.log).open("a") as out:
        out.write(f"{me}\\n")
"""
# As a job's script begins its own attempt.
_OWN = """
while [ ! -e go ]; do sleep 0.001; done
for each in attempts/*; do mkdir $each/begun 2>/dev/null && echo own >> $each/log; done; true
"""


def test_each_attempt_begins_once_whatever_races_for_it(tmp_path: Path) -> None:
    folders = [lay_out(tmp_path / "attempts" / f"{number:03}") for number in range(60)]
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", _TAKER, tmp_path / "attempts", f"{number}"],
            env={"PYTHONPATH": str(ROOT), "SLURM_JOB_ID": f"{number}"},
        )
        for number in range(3)
    ]
    racers.append(subprocess.Popen(["sh", "-c", _OWN], cwd=tmp_path))
    wait_for(lambda: len(list(tmp_path.glob("ready-*"))) == 3)
    (tmp_path / "go").touch()
    assert [racer.wait(60) for racer in racers] == [0] * 4
    began = [(folder / "log").read_text().split() for folder in folders]
    assert [len(each) for each in began] == [1] * 60
    for folder, (winner,) in zip(folders, began, strict=True):
        begun = folder / "begun"
        assert begun.is_dir() if winner == "own" else begun.read_text() == f"slurm {winner}\n"
        assert not list(folder.glob("*.partial"))

"""Jobs of Slurm without a Slurm: what is submitted, and what is made of its answers. tests/cluster has a real one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.contract import ProbeRequest, Result, RunRequest, WaitingAttempt, show_install
from reconciler.execute.attempt import Attempt, Intent, create, read_placement
from reconciler.execute.executors.executor import Handle, State, Submission, write_handle
from reconciler.execute.executors.queue_executor import QueueExecutor, QueueSilentError
from reconciler.execute.executors.slurm.queue import SlurmQueue, choose_takeover, list_hidden, make_job_script
from reconciler.execute.perform import INTERRUPTED
from reconciler.execute.queue_status import watch_jobs
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.settings import CellSettings
from reconciler.storage.files import RepositoryPaths
from tests.processes import wait_for

NAME = "reconcile-2026-1"


def slurm(root: Path) -> QueueExecutor:
    return QueueExecutor("slurm", RepositoryPaths(root), SlurmQueue())


def begin(folder: Path, address: Address | None = None, name: str = "2026-1") -> Attempt:
    at = address or Address(Kind.MODEL, "net")
    settings = CellSettings({"executor.slurm": True})
    return create(folder, Intent(name, at, "k" * 64, 1, "2026", {}, settings))


_KNOWN = """for word; do case "$word" in
    --noheader|--me|--array|--states=all|"--format=%i|%j|%T|%r|%N") ;;
    *) echo "squeue: unrecognized option '$word'" >&2; exit 1;;
esac; done
"""


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What squeue prints of all jobs of this user, in these columns; where there is no such file, the controller is
    down. Like Slurm's own it refuses what it does not know."""
    programs = tmp_path / "bin"
    programs.mkdir()
    reported = tmp_path / "answers"
    script = f"#!/bin/sh\n{_KNOWN}echo asked >> {tmp_path}/questions\nexec cat {reported}\n"
    (programs / "squeue").write_text(script)
    (programs / "scancel").write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/cancelled\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    reported.write_text("")
    return reported


def run_script(script: str, folder: Path, **variables: str) -> int:
    """As a node does: what would start the child is replaced."""
    lines = script.splitlines()
    assert "-m harness probe" in lines[-1]
    text = "\n".join([*lines[:-1], "echo ran >> runs"])
    variables = {"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1", **variables}
    return subprocess.run(["bash", "-c", text], cwd=folder, env=variables, capture_output=True, check=False).returncode


def test_job_begins_once_and_names_its_nodes(tmp_path: Path) -> None:
    attempt = begin(tmp_path / "it's here")
    script = make_job_script(Submission(attempt, ProbeRequest(), attempt.result))
    assert run_script(script, tmp_path) == 0
    assert (read_placement(attempt.placed).job, read_placement(attempt.placed).nodes) == ("slurm 7", ("n1",))
    assert run_script(script, tmp_path, SLURM_JOB_ID="8") != 0
    assert (attempt.folder / "runs").read_text() == "ran\n"
    assert attempt.twice.exists()
    assert read_placement(attempt.placed).job == "slurm 7"


def test_job_whose_attempt_is_gone_does_nothing(tmp_path: Path) -> None:
    attempt = begin(tmp_path / "attempts")
    script = make_job_script(Submission(attempt, ProbeRequest(), attempt.result))
    attempt.folder.rename(tmp_path / "elsewhere")
    assert run_script(script, tmp_path) != 0
    assert not list(tmp_path.rglob("runs"))


def test_job_gets_no_variable_that_a_child_here_would_not_get() -> None:
    environment = {
        "PATH": "/bin",
        "AWS_SECRET_ACCESS_KEY": "x",
        "TOKEN": "y",
        "SLURM_CONF": "z",
        "CUDA_VISIBLE_DEVICES": "0",
    }
    assert list_hidden(ProbeRequest(), environment) == ("AWS_SECRET_ACCESS_KEY", "CUDA_VISIBLE_DEVICES", "TOKEN")
    asks = RunRequest(
        benchmark=None,  # type: ignore[arg-type]
        backend="openai", scenario="Offline", mode="performance", model_key="*", user_conf="", log_dir="", counter="",
        secrets={"api_key": "TOKEN"},
    )  # fmt: skip
    assert list_hidden(asks, environment) == ("AWS_SECRET_ACCESS_KEY", "CUDA_VISIBLE_DEVICES")


@pytest.mark.parametrize(
    ("line", "state", "kind"),
    [
        ("PENDING|Resources|", State.QUEUED, ""),
        ("RUNNING|None|n3", State.RUNNING, ""),
        ("COMPLETING|None|n3", State.RUNNING, ""),
        ("PREEMPTED|None|n3", State.ENDED, "preempted"),
        ("NODE_FAIL|None|n3", State.ENDED, "node-failure"),
        ("FAILED|JobLaunchFailure|n3", State.ENDED, "node-failure"),
        ("TIMEOUT|TimeLimit|n3", State.ENDED, "time-limit"),
        ("CANCELLED|None|", State.ENDED, "cancelled"),
        ("OUT_OF_MEMORY|None|n3", State.ENDED, "resources"),
    ],
)
def test_states_of_slurm(tmp_path: Path, answers: Path, line: str, state: State, kind: str) -> None:
    answers.write_text(f"12|other|RUNNING|None|n1\n14|{NAME}|{line}\n")
    found = slurm(tmp_path).poll(Handle("slurm", tmp_path, NAME))
    assert (found.state, found.why.problem_class if found.why else "") == (state, kind)
    reported = found.why.problem if found.why else found.note
    assert "job 14" in reported
    assert ("n3" in reported) == ("n3" in line)


def test_job_that_slurm_forgot_is_lost_and_one_that_it_cannot_report_is_not(tmp_path: Path, answers: Path) -> None:
    executor = slurm(tmp_path)
    handle = Handle("slurm", tmp_path, NAME)
    assert executor.poll(handle).state is State.LOST
    answers.unlink()
    found = slurm(tmp_path).poll(handle)
    assert found.goes_on
    assert "does not answer" in found.note


def test_somebody_who_follows_jobs_does_not_ask_slurm_at_every_look(tmp_path: Path, answers: Path) -> None:
    paths = RepositoryPaths(tmp_path)
    write_handle(Handle("slurm", begin(paths.attempts).folder, NAME))
    answers.write_text(f"14|{NAME}|RUNNING|None|n1\n")
    look = watch_jobs(paths)
    assert [job.state for _ in range(20) for job in look()] == [State.RUNNING] * 20
    assert (tmp_path / "questions").read_text().count("asked") < 20


def test_result_counts_whatever_slurm_says(tmp_path: Path, answers: Path) -> None:
    answers.write_text(f"14|{NAME}|NODE_FAIL|None|n3\n")
    (tmp_path / "result.json").write_text("{}")
    found = slurm(tmp_path).poll(Handle("slurm", tmp_path, NAME))
    assert (found.state, found.why) == (State.ENDED, None)


def test_job_that_found_another_in_its_place_was_queued_again(tmp_path: Path, answers: Path) -> None:
    answers.write_text(f"14|{NAME}|FAILED|NonZeroExitCode|n3\n")
    (tmp_path / "twice").touch()
    found = slurm(tmp_path).poll(Handle("slurm", tmp_path, NAME))
    assert found.why is not None
    assert found.why.problem_class == "requeued"


def test_of_two_jobs_of_one_name_the_running_one_counts(answers: Path) -> None:
    answers.write_text(f"13|{NAME}|RUNNING|None|n1\n14|{NAME}|FAILED|NonZeroExitCode|n2\n")
    found = SlurmQueue().find(Handle("slurm", Path(), NAME), time.monotonic())
    assert found is not None
    assert found.id == "13"


def test_one_question_serves_all_that_ask_at_a_time(tmp_path: Path, answers: Path) -> None:
    answers.write_text("".join(f"{number}|{NAME}{number}|RUNNING|None|n1\n" for number in range(200)))
    queue, since = SlurmQueue(), time.monotonic()
    assert all(queue.find(Handle("slurm", tmp_path, f"{NAME}{number}"), since) for number in range(200))
    assert (tmp_path / "questions").read_text() == "asked\n"
    answers.unlink()
    with pytest.raises(QueueSilentError):
        queue.find(Handle("slurm", tmp_path, NAME), time.monotonic())


def test_cancelling_a_job_that_runs_returns_once_it_has_ended(tmp_path: Path, answers: Path) -> None:
    running, ended = f"14|{NAME}|RUNNING|None|n3\n", f"14|{NAME}|CANCELLED|None|n3\n"
    answers.write_text(running)
    (tmp_path / "bin/scancel").write_text(
        f"#!/bin/sh\n(sleep 0.2; echo '{ended.strip()}' > {answers}) > /dev/null 2>&1 &\n"
    )
    attempt = begin(tmp_path / "attempts")
    (attempt.folder / "begun").write_text("slurm 14\nn3\n")
    slurm(tmp_path).cancel(Handle("slurm", attempt.folder, NAME))
    assert answers.read_text() == ended


def test_cancelled_job_that_waits_for_a_place_never_begins(tmp_path: Path, answers: Path) -> None:
    attempt = begin(tmp_path / "attempts")
    script = make_job_script(Submission(attempt, ProbeRequest(), attempt.result))
    answers.write_text(f"14|{NAME}|PENDING|Resources|\n")
    slurm(tmp_path).cancel(Handle("slurm", attempt.folder, NAME))
    assert run_script(script, tmp_path) != 0
    assert not list(tmp_path.rglob("runs"))


TAKEN = "slurm 12_3\nn3\n"


def take_over(attempt: Attempt) -> Handle:
    """As a job does that has ended its own attempt, before this one's began. Slurm calls the latter 14."""
    (attempt.folder / "begun").write_text(TAKEN)
    (attempt.folder / "queued").write_text("14")
    return Handle("slurm", attempt.folder, NAME)


@pytest.mark.parametrize("own", ["PENDING|Resources|", "COMPLETED|None|n4", "CANCELLED|None|", ""])
@pytest.mark.parametrize(
    ("line", "state", "kind"),
    [
        ("RUNNING|None|n3", State.RUNNING, ""),
        ("NODE_FAIL|None|n3", State.ENDED, "node-failure"),
        ("PREEMPTED|None|n3", State.ENDED, "preempted"),
        ("CANCELLED|None|n3", State.ENDED, "cancelled"),
        ("TIMEOUT|TimeLimit|n3", State.ENDED, "lost"),
    ],
)
def test_attempt_that_was_taken_over_fares_as_the_job_that_took_it(
    tmp_path: Path, answers: Path, own: str, line: str, state: State, kind: str
) -> None:
    """It is no fault of the step that another one used up the time of its job."""
    handle = take_over(begin(tmp_path))
    answers.write_text(f"12_3|others|{line}\n" + (f"14|{NAME}|{own}\n" if own else ""))
    found = slurm(tmp_path).poll(handle)
    assert (found.state, found.why.problem_class if found.why else "") == (state, kind)
    assert "job 12_3" in (found.why.problem if found.why else found.note)


def test_job_that_took_over_may_be_younger_than_the_last_answer(tmp_path: Path, answers: Path) -> None:
    executor, attempt = slurm(tmp_path), begin(tmp_path)
    answers.write_text(f"14|{NAME}|PENDING|Resources|\n")
    assert executor.poll(Handle("slurm", attempt.folder, NAME)).state is State.QUEUED
    answers.write_text(f"14|{NAME}|PENDING|Resources|\n12_3|others|RUNNING|None|n3\n")
    assert executor.poll(take_over(attempt)).state is State.RUNNING
    answers.write_text("")
    assert slurm(tmp_path).poll(Handle("slurm", attempt.folder, NAME)).state is State.LOST


def test_cancelling_a_taken_job_ends_both_and_is_no_fault_of_the_next(tmp_path: Path, answers: Path) -> None:
    executor, attempt, after = slurm(tmp_path), begin(tmp_path), begin(tmp_path, name="2026-2")
    handle = take_over(attempt)
    take_over(after)
    answers.write_text("12_3|others|CANCELLED|None|n3\n")
    executor.cancel(handle)
    assert (tmp_path / "cancelled").read_text().split("\n") == ["12_3", f"--name={NAME} --me", ""]
    found = executor.poll(Handle("slurm", after.folder, "reconcile-2026-2"))
    assert found.why is not None
    assert (found.why.problem_class, found.why.problem_class in INTERRUPTED) == ("lost", True)


def test_own_job_of_what_another_took_over_is_not_left_in_the_queue(tmp_path: Path, answers: Path) -> None:
    executor, attempt = slurm(tmp_path), begin(tmp_path)
    (attempt.folder / "queued").write_text("14")
    executor.harvest(Handle("slurm", attempt.folder, NAME))
    assert not (tmp_path / "cancelled").exists(), "it waits still, and goes on without this pass"
    executor.harvest(take_over(attempt))
    assert (tmp_path / "cancelled").read_text() == "14\n"


def test_job_whose_attempt_was_taken_over_ends_well_and_does_nothing(tmp_path: Path) -> None:
    attempt = begin(tmp_path / "attempts")
    script = make_job_script(Submission(attempt, ProbeRequest(), attempt.result))
    take_over(attempt)
    assert run_script(script, tmp_path) == 0
    assert sorted(path.name for path in attempt.folder.iterdir()) == ["attempt.json", "begun", "output", "queued"]


def choose(attempt: Attempt, seconds: float | None = 10.0, options: object = "one node", token: str = "p") -> object:
    return choose_takeover(Submission(attempt, ProbeRequest(), attempt.result, seconds=seconds), options, token)


def test_only_short_steps_alike_take_each_others_place(tmp_path: Path) -> None:
    def of(name: str, more: dict[str, object]) -> Attempt:
        settings = CellSettings({"executor.slurm": True, "system.name": "box", **more})
        return create(tmp_path, Intent(name, Address(Kind.ENGINE, "e"), "k" * 64, 1, "2026", {}, settings))

    one = of("1", {})
    found = choose(one)
    assert found is not None
    assert choose(of("2", {})) == found
    others = (of("3", {"system.name": "other"}), of("4", {"system.python": "/opt/python"}))
    assert found not in [*map(choose, others), choose(one, options="two nodes"), choose(one, token="q")]
    assert choose(one, seconds=600.0) is None
    assert choose(of("5", {"executor.slurm.take_over": 0})) is None
    assert choose(of("6", {"executor.slurm.take_over": 900_000}), seconds=600.0) is not None


@pytest.mark.parametrize("seconds", [10.0, None])
def test_step_may_be_taken_over_once_slurm_has_its_job_and_if_it_is_known_to_be_short(
    tmp_path: Path, answers: Path, seconds: float | None
) -> None:
    pytest.importorskip("submitit")
    executor, _, refused = submit(tmp_path, "Invalid partition name specified", seconds)
    assert not list(refused.folder.glob("waiting-*"))
    (tmp_path / "down").unlink()
    attempt = begin(tmp_path / "attempts", name="2026-2")
    executor.submit(Submission(attempt, ProbeRequest(), attempt.result, seconds=seconds))
    assert (attempt.folder / "queued").read_text() == "5"
    waiting = [WaitingAttempt.read(path) for path in attempt.folder.glob("waiting-*")]
    assert [each.seconds for each in waiting] == ([] if seconds is None else [seconds])
    scripts = [path.read_text() for path in (attempt.folder / "slurm").glob("*.sh")]
    assert any("-m harness.child.slurm_job" in script for script in scripts)


_SLOW_SBATCH = """#!/bin/sh
for script; do :; done
cp "$script" FOLDER/submitted-$(ls FOLDER | grep -c submitted)
while [ ! -e FOLDER/open ]; do sleep 0.01; done
if [ -e FOLDER/no-arrays ] && grep -q '^#SBATCH --array' "$script"; then
  echo "sbatch: error: Batch job submission failed: Invalid job array specification" >&2; exit 1
fi
echo "Submitted batch job 5"
"""


@dataclass
class Crowd:
    """Several attempts whose submissions come while Slurm takes the first."""

    folder: Path
    attempts: list[Attempt]
    executor: QueueExecutor

    @property
    def scripts(self) -> list[str]:
        return [path.read_text() for path in sorted(self.folder.glob("submitted-*"))]


@pytest.fixture
def crowd(tmp_path: Path, answers: Path, request: pytest.FixtureRequest) -> Crowd:
    pytest.importorskip("submitit")
    answers.write_text("")
    for name in ("sbatch", "srun"):
        program = tmp_path / "bin" / name
        program.write_text(_SLOW_SBATCH.replace("FOLDER", str(tmp_path)))
        program.chmod(0o755)
    if getattr(request, "param", ""):
        (tmp_path / request.param).touch()
    run = Address(Kind.RUN, "open/box/resnet/Offline/accuracy")
    attempts = [begin(tmp_path / "attempts", run, f"2026-{number}") for number in range(4)]
    attempts.append(begin(tmp_path / "attempts", Address(Kind.ENGINE, "other"), "2026-4"))
    queue = SlurmQueue()
    executor = QueueExecutor("slurm", RepositoryPaths(tmp_path), queue)

    def submit(attempt: Attempt) -> threading.Thread:
        submission = Submission(attempt, ProbeRequest(), attempt.result)
        thread = threading.Thread(target=executor.submit, args=(submission,), daemon=True)
        thread.start()
        return thread

    threads = [submit(attempts[0])]
    wait_for(lambda: (tmp_path / "submitted-0").exists())
    threads += map(submit, attempts[1:])
    wait_for(lambda: sum(map(len, queue.gathering.waiting.values())) == 4)
    (tmp_path / "open").touch()
    for thread in threads:
        thread.join(30)
    return Crowd(tmp_path, attempts, executor)


def test_steps_of_one_kind_that_wait_are_submitted_as_one_array(crowd: Crowd, answers: Path) -> None:
    arrays = [script for script in crowd.scripts if "#SBATCH --array=0-2" in script]
    assert (len(crowd.scripts), len(arrays)) == (3, 1), "the first, the array, and what is of another kind"
    text = re.sub("^exec env .*$", "echo ran >> runs", arrays[0], flags=re.MULTILINE)
    for index in range(3):
        variables = {"SLURM_JOB_ID": str(5 + index), "SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": str(index)}
        variables |= {"PATH": "/usr/bin:/bin", "SLURM_JOB_NODELIST": f"n{index}"}
        subprocess.run(["bash", "-c", text], cwd=crowd.folder, env=variables, capture_output=True, check=True)
    members = crowd.attempts[1:4]
    assert all((each.folder / "runs").read_text() == "ran\n" for each in members)
    placed = [read_placement(each.placed) for each in members]
    assert {each.job for each in placed} == {"slurm 5_0", "slurm 5_1", "slurm 5_2"}
    (name,) = re.findall("#SBATCH --job-name=(.*)", arrays[0])
    lines = "".join(f"5_{index}|{name}|{state}|None|n1\n" for index, state in enumerate(("RUNNING", "PENDING")))
    answers.write_text(f"{lines}5_2|{name}|TIMEOUT|TimeLimit|n1\n4|reconcile-2026-0|RUNNING|None|n1\n")
    later = slurm(crowd.folder)
    reported = {
        each.job: later.poll(Handle("slurm", m.folder, m.folder.name)) for m, each in zip(members, placed, strict=True)
    }
    assert [reported[f"slurm 5_{index}"].state for index in range(3)] == [State.RUNNING, State.QUEUED, State.ENDED]
    assert later.poll(Handle("slurm", crowd.attempts[0].folder, "reconcile-2026-0")).state is State.RUNNING


def test_one_task_of_an_array_is_cancelled_and_no_other(crowd: Crowd, answers: Path) -> None:
    (array,) = (script for script in crowd.scripts if "#SBATCH --array" in script)
    (name,) = re.findall("#SBATCH --job-name=(.*)", array)
    answers.write_text("".join(f"5_{index}|{name}|CANCELLED|None|n1\n" for index in range(3)))
    crowd.executor.cancel(Handle("slurm", crowd.attempts[2].folder, "reconcile-2026-2"))
    (number,) = re.findall(rf"^(\d)\)\ncd {crowd.attempts[2].folder} ", array, flags=re.MULTILINE)
    assert (crowd.folder / "cancelled").read_text().split() == [f"5_{number}"]


@pytest.mark.parametrize("crowd", ["no-arrays"], indirect=True)
def test_where_slurm_takes_no_arrays_each_step_goes_alone(crowd: Crowd) -> None:
    alone = [script for script in crowd.scripts if "#SBATCH --array" not in script]
    assert len(alone) == len(crowd.attempts)
    assert not any(attempt.result.exists() for attempt in crowd.attempts), "none has failed by that"


_SBATCH = """#!/bin/sh
echo asked >> FOLDER/submissions
if [ -e FOLDER/down ]; then echo "sbatch: error: Batch job submission failed: WORDS" >&2; exit 1; fi
echo "Submitted batch job 5"
"""


def submit(tmp_path: Path, words: str, seconds: float | None = None) -> tuple[QueueExecutor, Handle, Attempt]:
    """To a Slurm that refuses, with these words, as long as there is ``down``."""
    for name in ("sbatch", "srun"):
        program = tmp_path / "bin" / name
        program.write_text(_SBATCH.replace("FOLDER", str(tmp_path)).replace("WORDS", words))
        program.chmod(0o755)
    (tmp_path / "down").touch()
    attempt = begin(tmp_path / "attempts")
    executor = slurm(tmp_path)
    handle = executor.submit(Submission(attempt, ProbeRequest(), attempt.result, seconds=seconds))
    return executor, handle, attempt


def test_what_slurm_did_not_receive_is_submitted_again_once_it_answers(tmp_path: Path, answers: Path) -> None:
    pytest.importorskip("submitit")
    answers.unlink()
    executor, handle, attempt = submit(tmp_path, "Unable to contact slurm controller (connect failure)")
    assert executor.poll(handle).state is State.QUEUED
    assert not attempt.result.exists()
    (tmp_path / "down").unlink()
    answers.write_text("")
    give_up = time.monotonic() + 30
    while (tmp_path / "submissions").read_text() != "asked\nasked\n":
        assert executor.poll(handle).state is State.QUEUED
        assert time.monotonic() < give_up
    answers.write_text(f"5|{handle.name}|RUNNING|None|n1\n")
    assert executor.poll(handle, 2.0).state is State.RUNNING


def test_what_slurm_refuses_has_failed_with_its_words(tmp_path: Path, answers: Path) -> None:
    pytest.importorskip("submitit")
    executor, handle, attempt = submit(tmp_path, "Invalid partition name specified")
    assert executor.poll(handle).state is State.ENDED
    result = Result.read(attempt.result)
    assert (result.done, result.problem_class) == (False, "input")
    assert "Invalid partition name specified" in result.problem


def test_a_queue_without_library_says_so(tmp_path: Path, answers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers.write_text("")
    monkeypatch.setitem(sys.modules, "reconciler.execute.executors.slurm.submission", None)
    attempt = begin(tmp_path / "attempts")
    slurm(tmp_path).submit(Submission(attempt, ProbeRequest(), attempt.result))
    result = Result.read(attempt.result)
    assert (result.done, result.problem, result.fix) == (False, "submitit is not installed here", show_install("slurm"))

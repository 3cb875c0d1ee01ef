"""What Slurm is asked and told, and what is made of its answers: with programs that say what the test says."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.contract import ProbeRequest
from reconciler.errors import ReconcilerError
from reconciler.execute.executors import slurm_queue
from reconciler.execute.executors.executor import Handle, Submission
from reconciler.execute.executors.queued import QueueSilentError
from reconciler.execute.executors.slurm_arrays import Member, Waiting, read_member, write_members
from reconciler.execute.executors.slurm_queue import SlurmQueue
from reconciler.execute.executors.slurm_takeover import read_queued
from tests.unit.execute.test_slurm_job import TICKET, wait


class Programs:
    """What Slurm's programs say; ``asked``: with which words."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *lines: str, status: int = 0, error: str = "") -> None:
        self.lines, self.status, self.error = list(lines), status, error
        self.asked: list[tuple[str, ...]] = []
        monkeypatch.setattr(slurm_queue, "ask", self.ask)

    def ask(self, words: tuple[str, ...], limit: float) -> Any:
        assert limit == 30.0
        self.asked.append(tuple(words))
        return SimpleNamespace(status=self.status, error=self.error, out="".join(f"{x}\n" for x in self.lines).encode())


@pytest.mark.parametrize(
    ("lines", "state"),
    [
        ((), None),
        (("5|other|RUNNING|None|n1",), None),
        (("5|n|RUNNING|None|n1", "nonsense", "6|n|PENDING"), "RUNNING"),
        (("5|n|COMPLETED|None|n1", "6|n|PENDING|Priority|"), "PENDING"),
        (("7|n|FAILED|None|n1", "6|n|RUNNING|None|n1", "8|n|PENDING|None|"), "RUNNING"),
        (("5|n|FAILED|None|n1", "12|n|CANCELLED|None|"), "CANCELLED"),
    ],
    ids=["none", "another", "of whole lines", "waits", "runs", "the last"],
)
def test_of_all_jobs_of_a_name_the_one_that_is_furthest_counts(
    lines: tuple[str, ...], state: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = Programs(monkeypatch, *lines)
    found = SlurmQueue().find(Handle("slurm", tmp_path, "n"), 0.0)
    assert (found.state if found else None) == state
    assert programs.asked == [("squeue", "--noheader", "--me", "--array", "--states=all", "--format=%i|%j|%T|%r|%N")]


def test_a_task_of_an_array_is_found_and_cancelled_by_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = wait(tmp_path, 2)
    name = write_members(group)
    programs = Programs(monkeypatch, f"5_0|{name}|PENDING|None|", f"5_1|{name}|RUNNING|None|n1")
    queue = SlurmQueue()
    assert [(found.id, found.state) for each in group if (found := queue.find(each.handle, 0.0))] == [
        ("5_0", "PENDING"),
        ("5_1", "RUNNING"),
    ]
    queue.cancel(group[1].handle)
    assert [words for words in programs.asked if words[0] == "scancel"] == [("scancel", "5_1")]


@pytest.mark.parametrize(
    ("queued", "begun", "cancels", "forgets"),
    [
        ("", "", [("scancel", "--name=n", "--me")], []),
        ("5", "", [("scancel", "--name=n", "--me")], []),
        ("5", "slurm 7\nn1\n", [("scancel", "7"), ("scancel", "--name=n", "--me")], [("scancel", "5")]),
        ("", "slurm 7\nn1\n", [("scancel", "7"), ("scancel", "--name=n", "--me")], []),
    ],
    ids=["not taken yet", "its own", "taken over", "taken over before its number came"],
)
def test_what_is_given_up_is_cancelled_where_it_is(
    queued: str,
    begun: str,
    cancels: list[tuple[str, ...]],
    forgets: list[tuple[str, ...]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What another job took over has one of its own that need not begin any more."""
    for name, text in (("queued", queued), ("begun", begun)):
        if text:
            (tmp_path / name).write_text(text)
    programs, queue, handle = Programs(monkeypatch), SlurmQueue(), Handle("slurm", tmp_path, "n")
    queue.cancel(handle)
    assert programs.asked == cancels
    programs.asked.clear()
    queue.forget(handle)
    assert programs.asked == forgets


def test_who_took_over_a_step_is_asked_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "begun").write_text("slurm 7\nn1\n")
    Programs(monkeypatch, "5|n|CANCELLED|None|", "7|other|TIMEOUT|None|n1")
    queue, handle = SlurmQueue(), Handle("slurm", tmp_path, "n")
    found = queue.find(handle, 0.0)
    assert found is not None
    assert (found.id, found.taken, found.for_another) == ("7", True, False)
    queue.cancelled["7"] = tmp_path / "another"
    other = queue.find(handle, 0.0)
    assert other is not None
    assert other.for_another


class Submissions:
    """What sbatch is given; ``refuses``: what it says to a job by its name, or to whatever has an array."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **refuses: Exception) -> None:
        submission = pytest.importorskip("reconciler.execute.executors.slurm_submission")
        self.refuses, self.found = refuses, list[dict[str, Any]]()
        monkeypatch.setattr(submission, "submit_job", self.submit)

    def submit(self, folder: Path, script: str, options: Any, more: Any, hidden: tuple[str, ...]) -> str:
        self.found.append({"folder": folder, "script": script, **options, **more})
        error = self.refuses.get("array" if "array" in more else options["job_name"].replace("2026-", "n"))
        if error:
            raise error
        return "5"


def submit_together(group: list[Waiting]) -> list[str]:
    """As where they came while another was handed over; what came of each."""
    queue, own = SlurmQueue(), group[-1]
    key: list[str] = []
    queue.gathering = cast(Any, SimpleNamespace(submit=lambda name, *_: key.append(name)))
    queue.submit(own.submission, own.handle)
    queue = SlurmQueue()
    queue.gathering.waiting[key[0]] = group[:-1]
    try:
        queue.submit(own.submission, own.handle)
        ended = ""
    except (ReconcilerError, QueueSilentError) as error:
        ended = str(error).partition("\n")[0]
    return [*(str(each.error or "").partition("\n")[0] for each in group[:-1]), ended]


def test_those_that_come_together_are_tasks_of_one_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sbatch, group = Submissions(monkeypatch), wait(tmp_path, 3)
    assert submit_together(group) == ["", "", ""]
    (found,) = sbatch.found
    first = group[-1]  # it hands them over
    members = [read_member(each.handle.folder) for each in group]
    assert [member.index for member in members if member] == [1, 2, 0]
    assert (found["array"], found["output"]) == ("0-2", "/dev/null")
    assert (found["job_name"], found["folder"]) == (
        members[0].name if members[0] else "",
        first.handle.folder / "slurm",
    )
    assert found["script"].startswith('case "$SLURM_ARRAY_TASK_ID" in\n0)\n')
    assert [read_queued(each.handle) for each in group] == ["5_1", "5_2", "5_0"]


def test_where_no_array_is_taken_each_hears_of_its_own_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sbatch = Submissions(monkeypatch, array=ReconcilerError("no arrays"), n1=ReconcilerError("no partition"))
    assert submit_together(wait(tmp_path, 3)) == ["", "no partition", ""]
    assert [found["job_name"] for found in sbatch.found[1:]] == ["2026-2", "2026-0", "2026-1"]


def test_an_array_that_nobody_heard_of_is_silent_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sbatch = Submissions(monkeypatch, array=QueueSilentError("no route"))
    assert submit_together(wait(tmp_path, 2)) == ["no route", "no route"]
    assert len(sbatch.found) == 1


def test_what_travels_goes_alone_and_after_its_double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sbatch, (own,) = Submissions(monkeypatch), wait(tmp_path, 1)
    queue = SlurmQueue()
    queue.members[own.handle.folder] = Member("of an earlier array", 3)
    attempt = own.submission.attempt
    queue.submit(Submission(attempt, ProbeRequest(), attempt.result, ticket=TICKET), own.handle)
    (found,) = sbatch.found
    assert (found["dependency"], found["chdir"], found["job_name"]) == ("singleton", "/", "2026-0")
    assert "END_OF_TICKET" in found["script"]
    assert queue.members == {}

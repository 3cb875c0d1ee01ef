"""A submission as a batch job of Slurm: its whole script, its options, and what is made of sbatch's words."""

from __future__ import annotations

import errno
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.contract import LaunchRequest, ProbeRequest, WaitingAttempt
from reconciler.errors import ReconcilerError, StorageError
from reconciler.execute.attempt import Attempt, Intent, create
from reconciler.execute.executors import slurm_arrays
from reconciler.execute.executors.carrier import Ticket
from reconciler.execute.executors.executor import Handle, Submission
from reconciler.execute.executors.job_script import find_interpreter, make_script, must_be_alone
from reconciler.execute.executors.queued import QueueSilentError
from reconciler.execute.executors.slurm_arrays import (
    LARGEST,
    Gathering,
    Member,
    Waiting,
    make_array_script,
    read_member,
    write_members,
)
from reconciler.execute.executors.slurm_job import choose_more_options, choose_options, list_hidden, make_job_script
from reconciler.execute.executors.slurm_takeover import Takeover, choose_takeover, note_queued, read_queued, read_taker
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.settings import CellSettings
from reconciler.storage.process import FIXED

SET = " ".join(f"{name}={value}" for name, value in sorted(FIXED.items()))
LAUNCH = LaunchRequest(command=("srun",), answer="a", counter="c", counter_there="t", cwd="/", ending=())
TICKET = Ticket("the\nticket", ("-m", "parcels", "fetch"), ("KEY",))


def begin(root: Path, name: str = "2026-1", kind: Kind = Kind.MODEL, **settings: object) -> Attempt:
    named = {"executor.slurm": True, **{n.replace("__", "."): value for n, value in settings.items()}}
    return create(root, Intent(name, Address(kind, "net"), "k" * 64, 1, "2026", {}, CellSettings(named)))


@pytest.mark.parametrize(
    ("request_", "written", "module"),
    [
        (ProbeRequest(), "request.json", ("harness",)),
        (LAUNCH, "launch.json", ("harness",)),
        (ProbeRequest(), "request.json", ("harness.child.slurm_job", "group", "600")),
    ],
    ids=["ours", "launcher", "one that takes over"],
)
def test_a_job_begins_once_says_where_it_is_and_carries_out_its_request(
    request_: Any, written: str, module: tuple[str, ...], tmp_path: Path
) -> None:
    attempt = begin(tmp_path / "it's here")
    folder = shlex.quote(str(attempt.folder))
    command = [sys.executable, "-P", "-m", *module, request_.verb, attempt.folder / written, attempt.result]
    assert make_job_script(Submission(attempt, request_, attempt.result), module).splitlines() == [
        f"cd {folder} || exit 74",
        "mkdir begun || { [ ! -f begun ] || exit 0; touch twice; exit 73; }",
        '{ echo "slurm ${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}"; '
        'scontrol show hostnames "$SLURM_JOB_NODELIST" 2>/dev/null || echo "$SLURM_JOB_NODELIST"; } > placed.partial',
        "mv placed.partial placed",
        f"exec >> {shlex.quote(str(attempt.log))} 2>&1",
        f"exec env {SET} {shlex.join(map(str, command))}",
    ]


def test_a_job_on_a_node_that_does_not_see_the_folder_fetches_what_it_carries_out(tmp_path: Path) -> None:
    attempt = begin(tmp_path)
    submission = Submission(attempt, ProbeRequest(), attempt.result, ticket=TICKET)
    assert make_script(submission, "echo ray r7", ("-i", "A=$A")).splitlines() == [
        f"mkdir -p {attempt.folder} && cd {attempt.folder} || exit 74",
        "{ echo ray r7; } > placed",
        "cat > ticket.json << 'END_OF_TICKET'",
        "the",
        "ticket",
        "END_OF_TICKET",
        f"exec env -i A=$A {SET} {sys.executable} -m parcels fetch {attempt.folder}/ticket.json",
    ]


@pytest.mark.parametrize(
    ("settings", "python"),
    [
        ({}, sys.executable),
        ({"system__python": "/opt/python"}, "/opt/python"),
        ({"system__python": "/opt/python", "system__launcher": ["srun"]}, sys.executable),
    ],
)
def test_a_job_is_started_by_the_interpreter_of_its_node(
    settings: dict[str, object], python: str, tmp_path: Path
) -> None:
    assert find_interpreter(begin(tmp_path, **settings)) == python


@pytest.mark.parametrize(
    ("address", "alone"),
    [
        (Address(Kind.RUN, "open/box/net/Offline/performance"), True),
        (Address(Kind.RUN, "open/box/net/Offline/accuracy"), False),
        (Address(Kind.COMPLIANCE_TEST, "open/box/net/Offline/TEST01"), True),
        (Address(Kind.ENGINE, "open/box/net/Offline"), False),
    ],
    ids=str,
)
def test_what_is_timed_shares_its_node_with_nobody(address: Address, alone: bool, tmp_path: Path) -> None:
    assert must_be_alone(create(tmp_path, Intent("1", address, "k" * 64, 1, "2026", {}))) is alone


NAMED = {"partition": "p", "account": "a", "qos": "q", "constraint": "h200"}


@pytest.mark.parametrize(
    ("declared", "alone", "options"),
    [
        ({}, False, {"time": None, "nodes": 1, "exclusive": True}),
        (
            NAMED,
            False,
            {**NAMED, "time": None, "nodes": 1, "exclusive": True},
        ),
        ({"exclusive": False, "nodes": 2}, False, {"time": None, "nodes": 2}),
        ({"exclusive": False, "nodes": 2}, True, {"time": None, "nodes": 2, "exclusive": True}),
        ({"time": 1000}, False, {"time": 1, "nodes": 1, "exclusive": True}),
        ({"time": 120_000}, False, {"time": 2, "nodes": 1, "exclusive": True}),
        ({"time": 121_000}, False, {"time": 3, "nodes": 1, "exclusive": True}),
    ],
)
def test_a_job_is_given_what_its_system_declares(
    declared: dict[str, object], alone: bool, options: dict[str, object]
) -> None:
    settings = {f"executor.slurm.{name}": value for name, value in declared.items()}
    assert choose_options(CellSettings(settings), alone=alone) == options
    more = choose_options(CellSettings({**settings, "hardware.nodes": 4}), alone=alone)
    assert more["nodes"] == declared.get("nodes", 4)


def test_slurm_is_told_never_to_begin_a_job_again(tmp_path: Path) -> None:
    always = {"no-requeue": True, "wckey": "mlperf-reconciler"}
    assert choose_more_options(CellSettings({})) == always
    away = {"chdir": "/", "output": "/dev/null", "dependency": "singleton"}
    assert choose_more_options(CellSettings({}), travels=True) == {**always, **away}
    options = {"executor.slurm.options.gres": "gpu:8", "executor.slurm.options.no-requeue": False}
    declared = CellSettings({**options, "executor.slurm.options.wckey": "mine"})
    assert choose_more_options(declared) == {"no-requeue": True, "wckey": "mine", "gres": "gpu:8"}


def test_a_job_gets_what_slurm_reads_and_no_variable_of_a_job_that_submits_it() -> None:
    environment = {"SLURM_CONF": "", "SLURM_ARRAY_TASK_ID": "", "SLURM_JOB_ID": "", "HOME": "", "KEY": "", "OTHER": ""}
    assert list_hidden(ProbeRequest(), environment) == ("KEY", "OTHER", "SLURM_ARRAY_TASK_ID")
    assert list_hidden(ProbeRequest(), environment, also=("KEY",)) == ("OTHER", "SLURM_ARRAY_TASK_ID")


@pytest.mark.parametrize(
    ("ticket", "seconds", "declared", "longest"),
    [
        (None, 10.0, {}, 600.0),
        (None, None, {}, 600.0),
        (None, 599.0, {}, 600.0),
        (None, 600.0, {}, None),
        (None, None, {"executor__slurm__take_over": 1000}, 1.0),
        (None, 10.0, {"executor__slurm__take_over": 20_000}, 20.0),
        (None, 20.0, {"executor__slurm__take_over": 20_000}, None),
        (TICKET, 10.0, {}, None),
    ],
)
def test_a_job_takes_over_for_as_long_as_is_declared(
    ticket: Ticket | None, seconds: float | None, declared: dict[str, object], longest: float | None, tmp_path: Path
) -> None:
    attempt = begin(tmp_path, **declared)
    found = choose_takeover(
        Submission(attempt, ProbeRequest(), attempt.result, ticket=ticket, seconds=seconds), (), "p"
    )
    assert (found.seconds if found else None) == longest
    assert found is None or found.words == ("harness.child.slurm_job", found.group, f"{longest:g}")
    assert found is None or found.group.startswith("p-")


@pytest.mark.parametrize(
    ("request_", "written"), [(ProbeRequest(), "request.json"), (LAUNCH, "launch.json")], ids=["ours", "launcher"]
)
def test_what_waits_says_how_it_is_begun_by_another_job(request_: Any, written: str, tmp_path: Path) -> None:
    attempt = begin(tmp_path)
    handle, takeover = Handle("slurm", attempt.folder, "n"), Takeover("group", 600.0)
    assert (read_queued(handle), read_taker(handle)) == ("", "")
    for seconds, told in ((10.0, None), (None, takeover)):
        note_queued(Submission(attempt, request_, attempt.result, seconds=seconds), handle, "14", told)
        assert (read_queued(handle), list(attempt.folder.glob("waiting*"))) == ("14", [])
    note_queued(Submission(attempt, request_, attempt.result, seconds=10.0), handle, "14", takeover)
    (waiting,) = attempt.folder.glob("waiting*")
    assert "group" in waiting.name
    words = (request_.verb, str(attempt.folder / written), str(attempt.result))
    assert WaitingAttempt.read(waiting) == WaitingAttempt(arguments=words, log=str(attempt.log), seconds=10.0)
    attempt.begun.mkdir()
    assert read_taker(handle) == ""  # its own job began it
    attempt.begun.rmdir()
    attempt.begun.write_text("slurm 15\nn1\n")
    assert read_taker(handle) == "15"
    note_queued(Submission(attempt, request_, attempt.result), Handle("slurm", tmp_path / "gone", "n"), "14", None)


def wait(root: Path, count: int) -> list[Waiting]:
    attempts = [begin(root, f"2026-{number}") for number in range(count)]
    return [
        Waiting(Submission(each, ProbeRequest(), each.result), Handle("slurm", each.folder, each.folder.name))
        for each in attempts
    ]


def test_each_task_of_an_array_finds_its_number_by_its_folder(tmp_path: Path) -> None:
    group = wait(tmp_path, 3)
    name = write_members(group)
    assert name.startswith("2026-0-array-")
    assert [read_member(each.handle.folder) for each in group] == [Member(name, index) for index in range(3)]
    assert write_members(group[:2]) != name
    assert json.loads((group[2].handle.folder / "array.json").read_text()) == {"name": name, "index": 2}
    assert [Member("a", 3).matches(job) for job in ("12_3", "12_13", "12_[3-4]", "3")] == [True, False, False, True]
    for text in ("{", "[]", '{"name": "a"}', '{"name": "a", "index": "b"}'):
        (group[0].handle.folder / "array.json").write_text(text)
        assert read_member(group[0].handle.folder) is None
    assert read_member(tmp_path / "none") is None


def test_a_disk_that_cannot_be_read_says_nothing_of_an_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(slurm_arrays, "read_json", fail)
    with pytest.raises(StorageError):
        read_member(tmp_path)


def test_an_array_does_what_its_number_says() -> None:
    assert make_array_script(["one", "two"]) == 'case "$SLURM_ARRAY_TASK_ID" in\n0)\none\n;;\n1)\ntwo\n;;\nesac'


def test_as_many_go_together_as_an_array_has_room_for(tmp_path: Path) -> None:
    """Those that came while another was handed over; the first of them always goes."""
    waiting = wait(tmp_path, LARGEST + 2)
    handed: list[int] = []
    gathering = Gathering(lambda group: handed.append(len(group)))
    gathering.waiting["key"] = waiting[:-1]
    own = waiting[-1]
    gathering.submit("key", own.submission, own.handle)
    assert handed == [LARGEST]
    assert [each.taken for each in waiting[:-1]] == [True] * (LARGEST - 1) + [False] * 2
    gathering.submit("other", own.submission, own.handle)
    gathering.submit("key", own.submission, own.handle)
    assert (handed, gathering.waiting) == ([LARGEST, 1, 3], {})


def test_what_comes_of_an_array_is_told_to_each_of_its_tasks(tmp_path: Path) -> None:
    first, second = wait(tmp_path, 2)

    def fail(_: object) -> None:
        raise QueueSilentError("no route")

    gathering = Gathering(fail)
    gathering.waiting["key"] = [second]
    with pytest.raises(QueueSilentError, match="no route"):
        gathering.submit("key", first.submission, first.handle)
    assert str(second.error) == "no route"


@pytest.mark.parametrize(
    ("words", "silent"),
    [
        ("Unable to contact slurm controller (connect failure)", True),
        ("slurm_msg_sendto: address:port=n1:6817", True),
        ("slurm_receive_msg: Zero", True),
        ("Socket timed out on send/recv operation", True),
        ("Connection refused", True),
        ("Unable to establish controller machine", True),
        ("Zero Bytes were transmitted or received", True),
        ("Unexpected missing socket error", True),
        ("Transport endpoint is not connected", True),
        ("controller in standby mode", True),
        ("Invalid\n  partition name specified", False),
        ("", False),
    ],
)
def test_a_slurm_that_was_not_reached_is_told_from_one_that_refuses(
    words: str, silent: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = pytest.importorskip("reconciler.execute.executors.slurm_submission")
    asked: list[Any] = []

    class Sbatch:
        hidden: tuple[str, ...] = ()

        def __init__(self, folder: Path) -> None:
            self.folder = folder

        def update_parameters(self, **options: object) -> None:
            asked.append((self.folder, self.hidden, options))

        def submit_script(self, script: str) -> str:
            raise RuntimeError(words)

    monkeypatch.setattr(submission, "_Sbatch", Sbatch)
    folder = tmp_path / "slurm"
    with pytest.raises(QueueSilentError if silent else ReconcilerError) as caught:
        submission.submit_job(folder, "script", {"nodes": 1}, {"gres": "gpu:8"}, ("KEY",))
    said = " ".join(words.split()) or "RuntimeError"
    assert str(caught.value).partition("\n")[0] == (said if silent else f"Slurm refuses the job: {said}")
    options = {"use_srun": False, "stderr_to_stdout": True, "additional_parameters": {"gres": "gpu:8"}, "nodes": 1}
    assert asked == [(folder, ("KEY",), options)]
    assert folder.is_dir()

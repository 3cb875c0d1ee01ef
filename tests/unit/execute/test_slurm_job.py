"""A submission as a batch job of Slurm: its whole script, its options, and what is made of sbatch's words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.contract import ProbeRequest
from reconciler.execute.attempt import Attempt, Intent, create
from reconciler.execute.executors.executor import Handle, Submission, Ticket
from reconciler.execute.executors.slurm.queue import (
    LARGEST,
    Gathering,
    Member,
    Waiting,
    choose_more_options,
    choose_options,
    choose_takeover,
    read_member,
    write_members,
)
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.settings import CellSettings
from tests.unit.storage.strange_files import STRANGE

TICKET = Ticket("the\nticket", ("-m", "parcels", "fetch"), ("KEY",))


def begin(root: Path, name: str = "2026-1", kind: Kind = Kind.MODEL, **settings: object) -> Attempt:
    named = {"executor.slurm": True, **{n.replace("__", "."): value for n, value in settings.items()}}
    return create(root, Intent(name, Address(kind, "net"), "k" * 64, 1, "2026", {}, CellSettings(named)))


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
def test_jobs_get_what_systems_declare(declared: dict[str, object], alone: bool, options: dict[str, object]) -> None:
    settings = {f"executor.slurm.{name}": value for name, value in declared.items()}
    assert choose_options(CellSettings(settings), alone=alone) == options
    more = choose_options(CellSettings({**settings, "hardware.nodes": 4}), alone=alone)
    assert more["nodes"] == declared.get("nodes", 4)


def test_slurm_is_ordered_never_to_begin_a_job_again(tmp_path: Path) -> None:
    always = {"no-requeue": True, "wckey": "mlperf-reconciler"}
    assert choose_more_options(CellSettings({})) == always
    away = {"chdir": "/", "output": "/dev/null", "dependency": "singleton"}
    assert choose_more_options(CellSettings({}), travels=True) == {**always, **away}
    options = {"executor.slurm.options.gres": "gpu:8", "executor.slurm.options.no-requeue": False}
    declared = CellSettings({**options, "executor.slurm.options.wckey": "mine"})
    assert choose_more_options(declared) == {"no-requeue": True, "wckey": "mine", "gres": "gpu:8"}


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


@pytest.mark.parametrize("strange", STRANGE)
def test_a_folder_of_an_attempt_without_a_readable_place_has_none(tmp_path: Path, strange: str) -> None:
    STRANGE[strange](tmp_path / "array.json")
    assert read_member(tmp_path) is None


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

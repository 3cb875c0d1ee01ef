"""However a pass ends, the next one needs no help: nothing recorded is lost, nothing done is repeated."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import LockedError
from reconciler.storage.leftovers import open_temporary
from tests.passes.crashing import REFUSED, complete_attempts, finish, processes_in, wait_for_end_of
from tests.passes.repository import HERE, SPEC, Repository, make_passed, make_repository
from tests.shared import need
from tests.warm.commands import start_command

need("mlperf_loadgen")

TOP = HERE.parent.parent
SCORE = "Score:open/box/tiny/Offline"
SOME = (11, 151)  # every 11th step, and every 151st of the hundreds that write one file of the tree after another


def start_pass(repository: Repository, *words: str) -> subprocess.Popen[str]:
    return start_command(words, repository.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository after one undisturbed pass."""
    return make_passed(tmp_path_factory)


@pytest.fixture(scope="module")
def unscored(whole: Repository, tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Everything is done but the score and the tree: one short child, then rendering."""
    repository = whole.copy(tmp_path_factory.mktemp("unscored") / "repository")
    for path in repository.record_paths(SCORE):
        path.unlink()
    shutil.rmtree(repository.paths.tree)
    return repository


def strike_everywhere(fault: str, every: tuple[int, ...], start: Repository, scratch: Path) -> list[dict[str, Any]]:
    """A pass over a copy of ``start`` for each n-th durable step, struck there, and what came of it."""
    words = [fault, *map(str, every), str(start.root), str(scratch)]
    command = [sys.executable, "-m", "tests.passes.crashing", *words]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [{**json.loads(line), "stderr": done.stderr} for line in done.stdout.splitlines()]


def check_recovered(report: dict[str, Any], whole: Repository) -> None:
    where = f"struck before step {report['at']} of {report['of']}"
    assert (report["left"], report["ended"]) == ([], 0), f"{where}\n{report['stderr']}"
    assert dict(report["done"]) == dict(whole.done()), where
    assert report["tree"] == sorted(whole.tree()), where
    nothing = {name: report[name] for name in ("lost_records", "lost_results", "failed", "damage", "again")}
    assert not any(nothing.values()), (where, nothing)
    assert report["in_sync"], where


def check_all(fault: str, start: Repository, whole: Repository, scratch: Path, statuses: set[int], *every: int) -> None:
    reports = strike_everywhere(fault, every or (1, 1), start, scratch)
    assert len(reports) >= 8
    for report in reports:
        assert report["status"] in statuses, report["stderr"]
        check_recovered(report, whole)


def test_kill_before_some_durable_steps(unscored: Repository, whole: Repository, tmp_path: Path) -> None:
    check_all("kill", unscored, whole, tmp_path, {-signal.SIGKILL}, *SOME)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_kill_before_each_durable_step(unscored: Repository, whole: Repository, tmp_path: Path) -> None:
    check_all("kill", unscored, whole, tmp_path, {-signal.SIGKILL})


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_kill_before_each_third_step_of_a_first_pass(whole: Repository, tmp_path: Path) -> None:
    fresh = make_repository(tmp_path / "fresh")
    (tmp_path / "scratch").mkdir()
    check_all("kill", fresh, whole, tmp_path / "scratch", {-signal.SIGKILL}, 3, 3)


def test_full_disk_at_some_steps(unscored: Repository, whole: Repository, tmp_path: Path) -> None:
    """It is an error that names the file and says what to do, never a bug; with space again, the next pass goes on."""
    check_all("full", unscored, whole, tmp_path, {0, REFUSED}, *SOME)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_full_disk_at_each_step(unscored: Repository, whole: Repository, tmp_path: Path) -> None:
    check_all("full", unscored, whole, tmp_path, {0, REFUSED})


def kill_at_random_instants(count: int, seed: int, whole: Repository, folder: Path) -> None:
    draw = random.Random(seed)
    began = time.monotonic()
    first = start_pass(make_repository(folder / "timed"))
    first.communicate()
    lasts = time.monotonic() - began
    assert first.returncode == 0
    for number in range(count):
        repository = make_repository(folder / str(number))
        doomed = start_pass(repository)
        time.sleep(lasts * (number + draw.random()) / count)  # one in each part of the pass
        doomed.kill()
        doomed.communicate()
        assert wait_for_end_of(repository.root) == []
        report = {"at": number, "of": count, "left": [], "ended": 0, "stderr": "", **finish(repository)}
        check_recovered(report, whole)
        shutil.rmtree(repository.root)


def test_kill_at_random_instants(whole: Repository, tmp_path: Path) -> None:
    kill_at_random_instants(3, 1, whole, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_kill_at_many_random_instants(whole: Repository, tmp_path: Path) -> None:
    kill_at_random_instants(50, 2, whole, tmp_path)


# -- a pass that stops at a known place ----------------------------------------------------------------------


class Patient:
    """A repository whose dataset is made only when it is ordered to go on."""

    def __init__(self, root: Path) -> None:
        self.repository = make_repository(root)
        self.waiting, self.go = root / "waiting", root / "go"
        settings = f"      dataset: {{settings: {{waiting: {self.waiting}, go: {self.go}}}}}\n"
        self.repository.edit(SPEC, "benchmarks/tiny.py\n", f"benchmarks/patient.py\n{settings}")

    def child(self) -> int:
        """The process id of the child, as soon as it is in the middle of its work."""
        give_up = time.monotonic() + 60
        while not (self.waiting.exists() and self.waiting.read_text(encoding="utf-8")):
            assert time.monotonic() < give_up, "the child never began"
            time.sleep(0.01)
        return int(self.waiting.read_text(encoding="utf-8"))

    def release(self) -> None:
        self.go.touch()


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Patient]:
    found = Patient(tmp_path / "repository")
    yield found
    found.release()
    assert wait_for_end_of(found.repository.root) == []


def once_each(repository: Repository) -> bool:
    return len(repository.done()) == 5 and set(repository.done().values()) == {1}


def test_child_dies_with_a_killed_pass(patient: Patient) -> None:
    doomed = start_pass(patient.repository)
    child = patient.child()
    assert child in processes_in(patient.repository.root)
    doomed.kill()
    doomed.communicate()
    assert wait_for_end_of(patient.repository.root) == []
    assert complete_attempts(patient.repository) == []
    patient.release()
    assert patient.repository.reconcile().after.plan.in_sync
    assert once_each(patient.repository)


def test_next_pass_waits_for_the_child_of_a_killed_one(patient: Patient) -> None:
    """No one has to unlock anything, however soon the next pass begins."""
    doomed = start_pass(patient.repository)
    patient.child()
    patient.release()
    doomed.kill()
    assert patient.repository.reconcile().after.plan.in_sync
    doomed.communicate()
    assert once_each(patient.repository)


def test_interrupt_ends_the_child_and_keeps_what_is_done(patient: Patient) -> None:
    repository = patient.repository
    interrupted = start_pass(repository)
    patient.child()
    interrupted.send_signal(signal.SIGINT)
    _, said = interrupted.communicate()
    assert interrupted.returncode == 130, said
    assert "Traceback" not in said
    assert processes_in(repository.root) == []
    assert (repository.records(), repository.leftovers()) == ({}, [])
    patient.release()
    assert repository.reconcile().after.plan.in_sync
    assert once_each(repository)


def test_what_a_killed_probe_left_goes_and_a_probe_under_way_stays(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository")
    repository.paths.work.mkdir()
    with open_temporary("probe", repository.paths.work) as running:
        (running / "answers").mkdir()
        left = running.with_name(f"{running.name}-killed")
        shutil.copytree(running, left)
        repository.reconcile(select=("kind=Dataset",))
        assert (left.exists(), (running / "answers").is_dir()) == (False, True)


def test_second_pass_names_the_first(patient: Patient) -> None:
    first = start_pass(patient.repository)
    patient.child()
    with pytest.raises(LockedError, match=rf"is running \(process {first.pid}\)") as caught:
        patient.repository.reconcile()
    assert caught.value.exit_code == 1
    assert caught.value.fix
    second = start_pass(patient.repository)
    _, said = second.communicate()
    assert (second.returncode, str(first.pid) in said) == (1, True)
    patient.release()
    first.communicate()
    assert first.returncode == 0
    assert once_each(patient.repository)


def test_second_pass_that_waits_finds_nothing_to_do(patient: Patient) -> None:
    first = start_pass(patient.repository)
    patient.child()
    second = start_pass(patient.repository, "--wait", "60")
    patient.release()
    first.communicate()
    said, _ = second.communicate()
    assert (first.returncode, second.returncode) == (0, 0)
    assert "In sync" in said
    assert once_each(patient.repository)


def test_look_goes_on_while_a_pass_runs(patient: Patient) -> None:
    first = start_pass(patient.repository)
    patient.child()
    assert not patient.repository.look().plan.in_sync
    patient.release()
    first.communicate()
    assert patient.repository.look().plan.in_sync

"""A node, the controller, the pass or the server of the shared folder is killed at a random instant: no run is lost,
none repeated."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from reconciler.resource.records import Ended
from tests.cluster import Slurm, find_missing, shared_folder
from tests.cluster.lab import assert_nothing_is_lost_or_repeated, make_lab, runs_of, start_pass
from tests.cluster.test_slurm import EVEN, ODD, healthy, running, slurm
from tests.passes.repository import Repository
from tests.processes import wait_for
from tests.shared import need

need("mlperf_loadgen", "submitit")
pytestmark = [pytest.mark.skipif(bool(find_missing()), reason=find_missing() or "Slurm is here"), pytest.mark.slow]
__all__ = ["healthy", "slurm"]  # fixtures
_LONGEST = 20.0  # seconds: about as long as a pass of this lab takes
_PASSES = 5


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("victim", ["node", "controller", "pass"])
def test_random_kill_loses_and_repeats_nothing(tmp_path: Path, healthy: Slurm, victim: str, seed: int) -> None:
    chance = random.Random(f"{victim} {seed}")
    repository = make_lab(tmp_path / "lab", {"odd": ODD, "even": EVEN}, seconds=3)
    process = start_pass(repository, "--busy")
    time.sleep(chance.uniform(0.5, _LONGEST))
    if victim == "pass":
        process.kill()
        process.wait()
    else:
        name = f"n{chance.randint(1, 4)}" if victim == "node" else "controller"
        healthy.do("kill", name)
        time.sleep(chance.uniform(0.0, 3.0))
        healthy.do("revive", name)
        process.wait(240)
    _pass_until_in_sync(repository)
    _assert_whole(repository)
    assert {record.problem_class for record in runs_of(repository)} <= {"", "node-failure", "requeued", "lost"}


@pytest.mark.skipif(bool(shared_folder.find_missing()), reason=shared_folder.find_missing() or "a folder can be served")
@pytest.mark.parametrize("seed", range(10))
def test_lost_folder_loses_and_repeats_nothing(tmp_path: Path, healthy: Slurm, seed: int) -> None:
    """Everything that works in it fails; what was recorded stays, and the next pass goes on from there."""
    chance = random.Random(f"folder {seed}")
    with shared_folder.served(tmp_path / "server") as folder:
        repository = make_lab(folder.seen / "lab", {"odd": ODD, "even": EVEN}, seconds=3)
        process = start_pass(repository, "--busy", said=tmp_path / "said")
        time.sleep(chance.uniform(0.5, _LONGEST))
        folder.kill()
        time.sleep(chance.uniform(0.0, 3.0))
        folder.revive()
        assert process.wait(240) in (0, 1, 2), (tmp_path / "said").read_text()
        wait_for(lambda: not running(healthy), 120)
        _pass_until_in_sync(repository)
        # A job that was just ending kept files of its folder open, which a file server then only hides.
        assert start_pass(repository, "--busy").wait(240) == 0
        _assert_whole(repository)


def _pass_until_in_sync(repository: Repository) -> None:
    for _ in range(_PASSES):
        if repository.look().plan.in_sync:
            break
        assert start_pass(repository, "--busy").wait(240) in (0, 1, 2)


def _assert_whole(repository: Repository) -> None:
    assert_nothing_is_lost_or_repeated(repository)
    assert sum(record.ended is Ended.DONE for record in runs_of(repository)) == 8

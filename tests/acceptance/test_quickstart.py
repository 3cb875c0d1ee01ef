"""A newcomer types one command, types it again, and clones the repository elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.conftest import SPEC, Quickstart, console, console_process
from tests.passes.repository import Repository

SCENARIOS = ("SingleStream", "MultiStream", "Server", "Offline")


def test_first_command_ends_green(quickstart: Quickstart) -> None:
    said = quickstart.first
    assert said.code == 0, said.err
    cells = {cell["cell"]: cell for cell in said.report["cells"]}
    assert set(cells) == {f"open/this-machine/digits/{name}" for name in SCENARIOS}
    for name, cell in cells.items():
        assert (cell["ready"], cell["validity"]) == (True, "VALID"), name
        assert float(cell["metric"]["value"]) > 0
        assert float(cell["accuracy"]["value"]) > 95, "the net learns real digits"
        assert cell["marks"] == ["rehearsal"], "real data on a real backend, and a rehearsal for ever"


def test_first_command_renders_the_tree(quickstart: Quickstart) -> None:
    tree = quickstart.repository.tree()
    for scenario in SCENARIOS:
        folder = f"open/Quickstart/results/this-machine/digits/{scenario}"
        for name in ("performance/run_1/mlperf_log_summary.txt", "accuracy/accuracy.txt", "user.conf"):
            assert f"{folder}/{name}" in tree
    assert "open/Quickstart/systems/this-machine.json" in tree


def test_every_outcome_is_recorded_once_with_its_spec(quickstart: Quickstart) -> None:
    repository = quickstart.repository
    assert set(repository.done().values()) == {1}
    assert repository.damage() == []
    for record in repository.records().values():
        assert set(record.spec) == {SPEC}
        assert not record.dirty
        assert "rehearsal" in record.marks


def test_second_command_runs_nothing(repository: Repository) -> None:
    records = set(repository.records())
    again = console_process(repository.root, SPEC)
    assert (again.code, "In sync" in again.out) == (0, True)
    assert console(repository.root, "plan", SPEC).code == 0
    assert set(repository.records()) == records
    assert console(repository.root, SPEC, "--json").report["outcomes"] == []


def test_clone_elsewhere_is_in_sync(repository: Repository, tmp_path: Path) -> None:
    repository.commit()
    repository.git("clone", "--quiet", "--no-hardlinks", str(repository.root), str(tmp_path / "clone"))
    clone = Repository(tmp_path / "clone")
    planned = console(clone.root, "plan", SPEC)
    assert planned.code == 0, planned.out
    done = console(clone.root, SPEC, "--json")
    assert done.code == 0
    assert [outcome for outcome in done.report["outcomes"] if outcome["status"] != "Done"] == []
    assert set(clone.records()) == set(repository.records())
    assert clone.tree() == repository.tree()


@pytest.mark.parametrize("command", [("status",), ("status", "--json"), ("show", "open/this-machine/digits/Server")])
def test_reports_of_a_finished_repository(repository: Repository, command: tuple[str, ...]) -> None:
    said = console(repository.root, *command)
    assert said.code == 0, said.err
    assert "Server" in said.out

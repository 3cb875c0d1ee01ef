"""A declared power state: set, read back, kept through the run, and put back whatever ends it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from harness.contract import CommandRequest, Result
from harness.power.requests import StateRequest
from reconciler.errors import SpecError
from reconciler.execute.power import find_journal, put_back_state
from reconciler.resource.kinds import Kind
from tests.passes.repository import SPEC, Repository, make_repository
from tests.processes import wait_for

USUAL, SAVING = "700 W", "400 W"


class Machine:
    """Whose state is a file; ``refuses``: it takes no other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "state"
        self.file.write_text(f"{USUAL}\n{USUAL}\n")

    @property
    def state(self) -> str:
        return (self.file.read_text().splitlines() or [""])[0]  # empty for a moment while it is written

    def set_by(self, state: str) -> tuple[str, ...]:
        return ("sh", "-c", f"printf '{state}\\n{state}\\n' > {self.file}")

    @property
    def read_by(self) -> tuple[str, ...]:
        return ("cat", str(self.file))

    def ask(self, script: str, **more: object) -> StateRequest:
        """To run a script in the state."""
        inner = CommandRequest(
            purpose="score",
            command=("sh", "-c", script),
            cwd=str(self.folder),
            run_dir=str(self.folder),
            output=str(self.folder),
            counter=str(self.folder / "counter"),
        )
        values = {
            "inner_verb": "command",
            "inner": asdict(inner),
            "set_by": self.set_by(SAVING),
            "restore": self.set_by(USUAL),
            "read_by": self.read_by,
            "expect": SAVING,
            "cwd": str(self.folder),
            "journal": str(self.folder / "journal.json"),
            "counter": str(self.folder / "counter"),
            **more,
        }
        return StateRequest(**values)  # type: ignore[arg-type]

    def start(self, request: StateRequest) -> subprocess.Popen[bytes]:
        request.write(self.folder / "request.json")
        words = ["state", str(self.folder / "request.json"), str(self.folder / "result.json")]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "harness", *words], env=environment, stdout=log, stderr=log
            )

    def carry_out(self, request: StateRequest) -> Result:
        assert self.start(request).wait(120) == 0, (self.folder / "log").read_text()
        return Result.read(self.folder / "result.json")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_run_has_the_state_and_the_machine_is_put_back(machine: Machine) -> None:
    result = machine.carry_out(machine.ask("cp state seen; echo accuracy > accuracy.txt"))
    assert (machine.folder / "seen").read_text().split("\n")[0] == SAVING
    assert result.done
    assert (result.facts["power.state"].value, result.facts["power.state"].role) == (SAVING, "evidence")
    assert machine.state == USUAL
    assert not (machine.folder / "journal.json").exists()


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"set_by": ("true",)}, "reads '700 W' when it was set"),
        ({"set_by": ("sh", "-c", "echo no permission >&2; exit 4")}, "no permission"),
        ({"set_by": ("no-such-program",)}, "cannot be set"),
    ],
)
def test_state_that_cannot_be_set_fails_the_run(machine: Machine, more: dict[str, object], problem: str) -> None:
    result = machine.carry_out(machine.ask("touch ran", **more))
    assert not result.done
    assert problem in result.problem
    assert machine.state == USUAL
    assert not (machine.folder / "ran").exists()


def test_state_that_does_not_last_fails_the_run(machine: Machine) -> None:
    result = machine.carry_out(machine.ask("printf '650 W\\n' > state; echo accuracy > accuracy.txt"))
    assert not result.done
    assert "reads '650 W' when it had ended" in result.problem
    assert machine.state == USUAL


def test_machine_that_is_not_put_back_is_reported_and_tried_again(machine: Machine) -> None:
    script = "echo accuracy > accuracy.txt"
    result = machine.carry_out(machine.ask(script, restore=("true",)))
    assert not result.done
    assert "was not restored: it was '700 W' before" in result.problem
    journal = machine.folder / "journal.json"
    said = json.loads(journal.read_text())
    journal.write_text(json.dumps({**said, "restore": machine.set_by(USUAL)}))
    assert machine.carry_out(machine.ask(script)).done
    assert machine.state == USUAL


def test_killed_run_puts_the_machine_back(machine: Machine) -> None:
    process = machine.start(machine.ask("touch began; sleep 60"))
    wait_for((machine.folder / "began").exists)
    assert machine.state == SAVING
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: machine.state == USUAL and not (machine.folder / "journal.json").exists())


def test_a_killed_keeper_is_made_up_for_by_the_next_pass(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONCILE_LOCKS", str(machine.folder / "locks"))
    machine.file.write_text(f"{SAVING}\n")
    said = {"restore": machine.set_by(USUAL), "read": machine.read_by, "cwd": str(machine.folder), "before": USUAL}
    find_journal().write_text(json.dumps(said))
    put_back_state()
    assert machine.state == USUAL
    assert not find_journal().exists()


def declare(repository: Repository, machine: Machine, **parts: object) -> None:
    said = {
        "set": list(machine.set_by(SAVING)),
        "restore": list(machine.set_by(USUAL)),
        "read": list(machine.read_by),
        "expect": SAVING,
        **parts,
    }
    text = json.dumps({name: value for name, value in said.items() if value})
    repository.edit(SPEC, "      status: available\n", f"      status: available\n      power_state: {text}\n")


def test_all_runs_are_in_the_state_and_only_another_makes_them_stale(tmp_path: Path, machine: Machine) -> None:
    pytest.importorskip("mlperf_loadgen")
    repository = make_repository(tmp_path / "lab")
    before = {str(step.change.address) for step in repository.look().plan.steps}
    declare(repository, machine)
    report = repository.reconcile()
    assert report.after.plan.in_sync, [outcome.message for outcome in report.outcomes]
    runs = [record for record in repository.records().values() if record.address.kind is Kind.RUN]
    assert {record.facts["power.state"].value for record in runs} == {SAVING}
    assert machine.state == USUAL
    repository.edit(SPEC, '"set": ["sh"', '"set": ["/bin/sh"')
    assert repository.look().plan.in_sync
    repository.edit(SPEC, f'"expect": "{SAVING}"', '"expect": "300 W"')
    stale = {str(step.change.address) for step in repository.look().plan.steps}
    assert {address.partition(":")[0] for address in stale} >= {"Run"}
    assert stale < before


def test_half_a_state_is_refused(tmp_path: Path, machine: Machine) -> None:
    repository = make_repository(tmp_path / "lab")
    declare(repository, machine, restore=None)
    with pytest.raises(SpecError, match="power_state has no restore"):
        repository.look()

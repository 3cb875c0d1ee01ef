"""Slices from the driver's answers to the published record: detected, made, computed on, taken away."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.mig.conftest import HARDWARE, CutMachine
from tests.passes.repository import Repository, make_repository, unfinished
from tests.processes import wait_for

HERE = Path(__file__).parent


@pytest.fixture
def repository(machine: CutMachine, tmp_path: Path) -> Repository:
    """Its system is reached through a launcher that starts everything here: what this machine's kernel knows of GPUs
    does not matter then, and NVML does."""
    text = (HERE.parent / "passes/spec.yaml").read_text(encoding="utf-8")
    launcher = machine.folder / "launch"
    script = f'#!/bin/sh\nLD_LIBRARY_PATH={machine.folder}; export LD_LIBRARY_PATH; exec "$@"\n'
    launcher.write_text(script)
    launcher.chmod(0o755)
    system = f"status: available\n      {HARDWARE}\n      launcher: [{launcher}]"
    return make_repository(tmp_path / "repository", text.replace("status: available", system))


def console(repository: Repository, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "reconciler.cli.main", *words]
    return subprocess.run(command, cwd=repository.root, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
def test_slices_are_made_computed_on_and_taken_away(machine: CutMachine, repository: Repository) -> None:
    blocked = console(repository)
    assert blocked.returncode == 2
    assert "the system declares 2x 1g.10gb of MIG; node" in blocked.stdout
    assert "has undivided GPUs" in blocked.stdout

    printed = console(repository, "mig", "create")
    assert printed.returncode == 2, printed.stderr
    lines = [line.removeprefix("sudo -n ") for line in printed.stdout.splitlines()]
    assert lines[:2] == ["nvidia-smi -i 0 -mig 1", "nvidia-smi mig -i 0 -cgi 1g.10gb -C"]
    assert machine.slices() == []
    made = console(repository, "mig", "create", "box", "--run")
    assert (made.returncode, len(machine.slices())) == (0, 2), made.stderr
    machine.smi("mig", "-i", "0", "-cgi", "2g.20gb", "-C")
    assert "made by reconcile" in console(repository, "mig").stdout
    reported = json.loads(console(repository, "mig", "--json").stdout)
    assert [part["made_here"] for part in reported["gpus"][0]["slices"]] == [True, True, False]
    assert (reported["gpus"][1]["mig"], reported["gpus"][1]["slices"]) == (None, [])
    left_to_do = console(repository, "mig", "create", "--json")
    assert (left_to_do.returncode, json.loads(left_to_do.stdout)["commands"]) == (0, [])

    report = repository.reconcile()
    assert report.outcomes
    assert unfinished(report) == []
    assert console(repository, "plan").returncode == 0
    for mode in ("performance", "accuracy"):
        (record,) = repository.records_of(f"Run:open/box/tiny/Offline/{mode}").values()
        assert record.facts["gpu.slices"].value == "2x 1g.10gb"
        assert record.facts["backend.workers"].value == 2
        assert record.inputs["hardware.mig"].value == "2x 1g.10gb"

    taken = console(repository, "mig", "destroy", "--run", "--json")
    assert (taken.returncode, json.loads(taken.stdout)["slices"]) == (0, 2), taken.stderr
    (left,) = machine.slices()
    assert left.endswith("MIG 2g.20gb")
    assert "gpu GPU-1a7e 00000000:01:00.0 1 " in machine.devices.read_text()  # somebody else's slice is on it


def test_a_run_is_measured_while_other_slices_compute(machine: CutMachine, repository: Repository) -> None:
    """On one slice, next to itself on another one."""
    repository.edit("specs/spec.yaml", "count: 2}", "count: 1}")
    repository.edit("specs/spec.yaml", "min_query_count: 100}", "min_query_count: 100, background: [tiny/Offline]}")
    machine.smi("-i", "0", "-mig", "1")
    machine.smi("mig", "-i", "0", "-cgi", "1g.10gb", "-C")
    alone = repository.reconcile()
    assert any("needs 2x 1g.10gb MIG slices, but 1x 1g.10gb" in outcome.message for outcome in alone.outcomes)
    machine.smi("mig", "-i", "0", "-cgi", "1g.10gb", "-C")
    assert unfinished(repository.reconcile()) == []
    assert repository.look().plan.in_sync, console(repository, "plan").stdout
    record = next(r for r in repository.records_of("Run:open/box/tiny/Offline/performance").values() if not r.problem)
    assert record.facts["gpu.slices"].value == "1x 1g.10gb"
    assert len(record.facts["background.samples_per_second"].value) == 1
    assert record.inputs["background.0.scenario"].value == "Offline"
    (accuracy,) = repository.records_of("Run:open/box/tiny/Offline/accuracy").values()
    assert "background.samples_per_second" not in accuracy.facts


def test_detection_reports_slices(machine: CutMachine, repository: Repository) -> None:
    machine.smi("-i", "0", "-mig", "1")
    for _ in range(3):
        machine.smi("mig", "-i", "0", "-cgi", "1g.10gb", "-C")
    reported = json.loads(console(repository, "detect", "--json", "--system", "other").stdout)
    assert reported["hardware"]["mig"] == {"profile": "1g.10gb", "count": 3}
    assert "MIG 3x 1g.10gb" in reported["description"]["accelerator_model_name"]
    assert reported["description"]["accelerators_per_node"] == "2"


@pytest.mark.slow
@pytest.mark.parametrize("blow", [0, 1, 2])
def test_a_killed_command_loses_nothing_that_it_made(machine: CutMachine, repository: Repository, blow: int) -> None:
    """Killed as the tool makes the first slice, or just after: the tool itself goes on."""
    tool = machine.folder / "nvidia-smi"
    said = machine.folder / "said"
    slow = re.sub(r"exec (.*)", rf"\1; status=$?; echo x >> {said}; sleep 0.3; exit $status", tool.read_text())
    tool.write_text(slow)
    command = [sys.executable, "-P", "-m", "reconciler.cli.main", "mig", "create", "--run"]
    with subprocess.Popen(command, cwd=repository.root, stdout=subprocess.DEVNULL) as process:
        wait_for(lambda: said.exists() and len(said.read_text()) >= 2 * (blow + 1))
        os.kill(process.pid, signal.SIGKILL)
    time.sleep(0.5)  # what it had started ends
    stranger = len(machine.slices())
    ended = console(repository, "mig", "destroy", "--run")
    assert ended.returncode == 0, ended.stderr
    assert (stranger, machine.slices()) == (blow, [])
    assert "gpu GPU-1a7e 00000000:01:00.0 0 " in machine.devices.read_text()
    assert console(repository, "mig", "destroy").stdout.startswith("Nothing to do")

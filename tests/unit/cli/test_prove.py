"""`reconcile prove`: what a machine without GPUs can try, what it says of the rest, and what its report leaves out."""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from reconciler.cli.main import main
from reconciler.observed.installed_backends import list_installed
from reconciler.observed.machine import list_accelerators
from reconciler.rehearse import machine_parts
from reconciler.rehearse.machine_parts import PARTS, Given, redact
from reconciler.storage.process import ChildEnd, ask
from tests.processes import find_free_ports
from tests.shared import need
from tests.warm.commands import run_command

without_gpus = pytest.mark.skipif(bool(list_accelerators()), reason="this machine has a GPU to try")


@pytest.fixture
def _warm_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the commands that a part runs, and their children."""
    start = [sys.executable, "-P", "-m", "reconciler.cli.main"]

    def ask_warm(command: Sequence[str], limit: float) -> ChildEnd:
        if list(command[: len(start)]) != start:
            return ask(command, limit)
        ended = run_command(command[len(start) :], Path.cwd())
        return ChildEnd(ended.returncode, ended.stdout.encode(), ended.stderr)

    monkeypatch.setattr(machine_parts, "ask", ask_warm)


@without_gpus
def test_parts_without_what_they_need_name_it(capsys: pytest.CaptureFixture[str]) -> None:
    names = [name for name in PARTS if name != "cpu"]
    code = main(["prove", *names, "--json"])
    report = json.loads(capsys.readouterr().out)
    assert code == 0
    rows = {row["part"]: row for row in report["parts"]}
    assert rows.keys() == set(names)
    assert {row["result"] for row in rows.values()} == {"not tried"}
    assert all(row["why"] and row["tries"] for row in rows.values())
    assert rows["power"]["why"].endswith("--director, --ntp, --kit")


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("_warm_commands")
def test_a_machine_without_gpus_runs_its_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need("onnxruntime", "onnx", "mlperf_loadgen")
    target = tmp_path / "report.json"
    code = main(["prove", "cpu", "--output", str(target), "--yes"])
    shown = capsys.readouterr().out
    report = json.loads(target.read_text())
    (row,) = report["parts"]
    assert (code, row["result"], row["why"]) == (0, "worked", "")
    (cell,) = [cell for cell in row["figures"]["cells"] if cell["metric"]]
    assert cell["validity"] == "VALID"
    assert target.read_text() in shown  # all of it was shown before
    assert socket.gethostname() not in target.read_text()
    assert report["here"]["packages"]["onnxruntime"] == list_installed()["onnxruntime"]


def test_a_report_is_written_only_if_its_user_agrees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "report.json"
    monkeypatch.setattr("click.confirm", lambda *_, **__: False)
    assert main(["prove", "power", "--output", str(target)]) == 0
    assert not target.exists()


@pytest.mark.usefixtures("_warm_commands")
def test_a_silent_meter_fails_with_its_address_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need("onnxruntime", "onnx", "mlperf_loadgen")
    (port,) = find_free_ports(1)
    (tmp_path / "kit").mkdir()
    director = f"127.0.0.1:{port}"
    words = ("--director", director, "--ntp", "time.lab.example", "--kit", str(tmp_path / "kit"), "--json")
    assert main(["prove", "power", *words]) == 2
    said = capsys.readouterr().out
    (row,) = json.loads(said)["parts"]
    assert row["result"] == "failed"
    assert row["why"]
    assert director not in said
    assert "time.lab.example" not in said


def test_names_addresses_and_secrets_are_left_out() -> None:
    version = next((v for v in list_installed().values() if re.fullmatch(r"\d+(\.\d+){3}", v)), "")
    text = (
        f"{socket.gethostname()} at 192.0.2.7 and 2001:db8:0:1::7, 02:42:ac:11:00:02, "
        "GPU-01234567-89ab-cdef-0123-456789abcdef, "
        f'ada@lab.example, --token=abc123 "api_key": "s3cr3t" hunter22 {Path.home()}/x {version}'
    )
    found = redact({"said": [text]}, Given(), {"LAB_PASSWORD": "hunter22", "EDITOR": "vi"})["said"][0]
    hidden = ("192.0.2.7", "2001:db8", "02:42", "01234567", "ada@", "abc123", "s3cr3t", "hunter22", str(Path.home()))
    assert [item for item in (*hidden, socket.gethostname()) if item in found and len(item) > 3] == []
    assert version in found

"""`reconcile fetch`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from reconciler.cli.fetch import command
from reconciler.errors import ERROR, IN_SYNC, INTERRUPTED, NOT_IN_SYNC, ReconcilerError
from tests.unit.fetch.serving import Behaviour, serve


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments), standalone_mode=False)


@pytest.fixture(autouse=True)
def _scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLPERF_SCRATCH_PATH", str(tmp_path / "scratch"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.chdir(tmp_path)


def test_a_dry_run_says_what_would_come_and_asks_no_one(tmp_path: Path) -> None:
    reported = run("resnet50", "--dry-run")
    assert reported.return_value == NOT_IN_SYNC
    for part in ("models/ResNet50/resnet50_v1.onnx", "to be fetched", "image-net.org", "are needed there", "are free"):
        assert part in reported.output
    assert not (tmp_path / "scratch").exists()


def test_everything_there_is_in_sync(tmp_path: Path) -> None:
    mirror = tmp_path / "lab"
    for path in ("models/rnn-t/DistributedDataParallel_1576581068.9962234-epoch-100.pt",):
        (mirror / path).parent.mkdir(parents=True)
        (mirror / path).write_bytes(b"checkpoint")
    for number in range(2703):
        path = mirror / f"data/LibriSpeech/dev-clean/1/{number % 3}/{number}.flac"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"sound")
    assert run("rnnt", "--mirror", str(mirror)).return_value == IN_SYNC
    again = run("rnnt", "--json")
    assert again.return_value == IN_SYNC
    assert [item["fate"] for item in json.loads(again.output)["files"]] == ["here", "here"]


@pytest.mark.parametrize(
    ("mirror", "problem"),
    [("ftp://lab.example/x", "ftp://lab.example/x cannot be read"), ("/none/here", "not a folder")],
)
def test_a_mirror_that_cannot_be_one_is_reported_before_anything(mirror: str, problem: str) -> None:
    reported = run("bert", "--mirror", mirror, "--dry-run").exception
    assert isinstance(reported, ReconcilerError)
    assert problem in reported.message


def test_a_failure_says_which_address_and_what_to_do(tmp_path: Path) -> None:
    with serve(Behaviour({"/data/squad/dev-v1.1.json": b"{}"})) as address:
        reported = run("bert", "--mirror", address)
    assert reported.return_value == ERROR
    assert f"{address}/data/squad/vocab.txt: the server answered 404" in reported.output
    assert "3e85deb501d4e538b6bc56f786231552" in reported.output  # the md5 that was asked for
    assert not (tmp_path / "scratch/data/squad/dev-v1.1.json").exists()


def test_the_benchmarks_of_the_spec_are_the_default(declared: Path) -> None:
    spec = declared / "specs/one.yaml"
    text = spec.read_text().replace("      model: {settings: {epochs: 1}}\n", "")  # a setting of digits alone
    assert "digits" in text
    assert "epochs" not in text
    reported = run("--dry-run")
    assert isinstance(reported.exception, ReconcilerError)  # digits needs no file
    spec.write_text(text.replace("digits", "resnet50"))
    assert "resnet50_v1.onnx" in run("--dry-run").output
    spec.write_text(text.replace("digits", "dlrm_v2"))  # its code has another name than its files
    assert "day_23_dense.npy" in run("--dry-run").output


def test_an_unknown_name_gets_the_nearest() -> None:
    reported = run("resnet51")
    assert isinstance(reported.exception, ReconcilerError)
    assert "did you mean resnet50?" in reported.exception.fix


def test_an_interrupted_fetch_ends_at_once_and_goes_on_later(tmp_path: Path) -> None:
    """The interpreter's own Ctrl-C, in a process of its own, while a server has fallen silent."""
    path = "models/rnn-t/DistributedDataParallel_1576581068.9962234-epoch-100.pt"
    behaviour = Behaviour({f"/{path}": b"checkpoint" * 100_000}, stall={0: 300_000, 1: 300_000})
    with serve(behaviour) as address:
        asked = [sys.executable, "-m", "reconciler.cli.main", "fetch", "rnnt", "--mirror", address]
        child = subprocess.Popen(asked, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
        give_up = time.monotonic() + 60
        parts: list[Path] = []
        while not any(part.stat().st_size for part in parts) and time.monotonic() < give_up:
            time.sleep(0.02)
            parts = list((tmp_path / "scratch/.mlperf-reconciler/incoming").glob("*.pt.part"))
        child.send_signal(signal.SIGINT)
        _, reported = child.communicate(timeout=60)
        assert child.returncode == INTERRUPTED
        assert "run the same command again" in reported
        (part,) = parts
        have = part.stat().st_size
        behaviour.stall.clear()
        run("rnnt", "--mirror", address)
    assert (tmp_path / "scratch" / path).read_bytes() == b"checkpoint" * 100_000
    assert 0 < have <= 300_000
    assert f"bytes={have}-" in {asked_range for _, asked_range, _ in behaviour.asked}

"""What a harness's command, and the script of a job, are told."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from harness.contract import ProbeRequest
from reconciler.execute.attempt import Attempt, Intent, create
from reconciler.execute.commands import collect_placeholder_values
from reconciler.execute.executors.executor import Submission
from reconciler.execute.executors.job_script import make_script
from reconciler.execute.service import Services
from reconciler.files import RepositoryPaths
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.settings import CellSettings

SETTINGS = {
    "scenario": "Offline",
    "benchmark.official": "resnet",
    "system.name": "box",
    "engine.precision": "int8",
    "engine.batch_size": "16",
    "harness.image": "net@sha256:0",
}


def begin(root: Path, address: Address) -> Attempt:
    (root / "repository").mkdir()
    intent = Intent("2026-1", address, "k" * 64, 1, "2026", {}, CellSettings(SETTINGS))
    return create(RepositoryPaths(root / "repository").attempts, intent)


def test_placeholders_stand_for_what_the_cell_declares(tmp_path: Path) -> None:
    attempt = begin(tmp_path, Address(Kind.RUN, "open/box/net/Offline/accuracy"))
    paths = RepositoryPaths(tmp_path / "repository")
    found = collect_placeholder_values(attempt, paths, {"engine": "made/net.engine"})
    told = ("benchmark", "system", "precision", "batch_size", "image", "scenario", "mode", "loadgen_mode", "engine")
    assert {name: found[name] for name in told} == {
        "benchmark": "resnet",
        "system": "box",
        "precision": "int8",
        "batch_size": "16",
        "image": "net@sha256:0",
        "scenario": "Offline",
        "mode": "accuracy",
        "loadgen_mode": "AccuracyOnly",
        "engine": "made/net.engine",
    }
    untold = ("target_qps", "target_latency", "audit_config", "port", "service_url")
    assert {name: found[name] for name in untold} == dict.fromkeys(untold, "")
    assert found["user_conf"] == str(attempt.user_conf)


def test_a_job_carries_out_its_request_with_the_harness(tmp_path: Path) -> None:
    attempt = begin(tmp_path, Address(Kind.MODEL, "net"))
    script = make_script(Submission(attempt, ProbeRequest(), attempt.result), "echo slurm 7")
    last = shlex.split(script.splitlines()[-1])
    command = [sys.executable, "-P", "-m", "harness", "probe", str(attempt.request), str(attempt.result)]
    assert last[:2] == ["exec", "env"]
    assert last[-len(command) :] == command


def test_a_pass_without_a_server_ends_none() -> None:
    services = Services()
    assert services.runs("k" * 64) is None
    assert services.seconds == 0

"""Requests of a run, of which a test or a measurement says what matters to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.contract import Benchmark, RunRequest


def make_run_request(folder: Path, **given: Any) -> RunRequest:
    """Its user.conf, logs and counter are in ``folder``."""
    own = {"user_conf": str(folder / "user.conf"), "log_dir": str(folder), "counter": str(folder / "counter")}
    usual = {"benchmark": Benchmark(name="tiny"), "backend": "null", "scenario": "Offline", "mode": "performance"}
    return RunRequest(**{"model_key": "resnet50", **own, **usual, **given})

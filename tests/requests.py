"""Requests of a run with defaults for all that a test or a measurement does not set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.contract import Benchmark, RunRequest


def make_run_request(folder: Path, **given: Any) -> RunRequest:
    """Make a request with its user.conf, logs and counter in ``folder``."""
    own = {"user_conf": str(folder / "user.conf"), "log_dir": str(folder), "counter": str(folder / "counter")}
    usual = {"benchmark": Benchmark(name="tiny"), "backend": "null", "scenario": "Offline", "mode": "performance"}
    return RunRequest(**{"model_key": "resnet50", **own, **usual, **given})

"""Short runs of the real LoadGen in child processes: kept logs of them all, and what makes one anew."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reconciler.loadgen.log import DetailLog, parse_detail
from tests.kept_logs import unpack
from tests.shared import make_once, need

CHILD = Path(__file__).parent / "loadgen_child.py"
TOTAL, LOADED = 1000, 256


@dataclass(frozen=True)
class RunCase:
    """A run: its scenario and mode, the lines of its user.conf, and whether an audit.config is given. ``stalls_at``:
    the query that takes a fifth of a second."""

    scenario: str
    conf: str
    mode: str = "PerformanceOnly"
    audit: str = ""
    delay: float = 0.0
    stalls_at: int = 0

    @property
    def tokens(self) -> bool:
        return "use_token_latencies" in self.conf


_COUNT = "*.*.performance_sample_count_override = 256\n"
RUNS = {
    # Targets are far from the truth on purpose where a verdict must not depend on the machine: what is to be too short
    # runs out of queries a minute before its time.
    "single-stream-valid": RunCase(
        "SingleStream",
        _COUNT + "*.*.min_duration = 50\n*.*.min_query_count = 700\n*.SingleStream.target_latency = 0.001\n",
    ),
    "single-stream-slow": RunCase(
        "SingleStream",
        _COUNT + "*.*.min_duration = 0\n*.*.min_query_count = 700\n*.SingleStream.target_latency = 1\n",
        delay=0.006,
    ),
    "single-stream-out-of-queries": RunCase(
        "SingleStream", _COUNT + "*.*.min_duration = 60000\n*.SingleStream.target_latency = 10000\n"
    ),
    "single-stream-too-few": RunCase(
        "SingleStream", _COUNT + "*.*.min_duration = 0\n*.*.min_query_count = 40\n*.SingleStream.target_latency = 1\n"
    ),
    "single-stream-max-count": RunCase(
        "SingleStream", _COUNT + "*.*.min_duration = 0\n*.*.max_query_count = 50\n*.SingleStream.target_latency = 1\n"
    ),
    "single-stream-late": RunCase(
        "SingleStream",
        _COUNT + "*.*.min_duration = 0\n*.*.max_query_count = 50\n*.SingleStream.target_latency = 1\n",
        delay=0.001,
        stalls_at=50,
    ),
    "multi-stream-valid": RunCase("MultiStream", _COUNT + "*.*.min_duration = 0\n*.MultiStream.target_latency = 0.2\n"),
    "multi-stream-slow": RunCase(
        "MultiStream", _COUNT + "*.*.min_duration = 0\n*.MultiStream.target_latency = 1\n", delay=0.006
    ),
    "multi-stream-out-of-queries": RunCase(
        "MultiStream", _COUNT + "*.*.min_duration = 60000\n*.MultiStream.target_latency = 10000\n"
    ),
    "server-valid": RunCase(
        "Server", _COUNT + "*.*.min_duration = 300\n*.Server.target_qps = 2000\n*.Server.target_latency = 5000\n"
    ),
    "server-long": RunCase(
        "Server", _COUNT + "*.*.min_duration = 3000\n*.Server.target_qps = 500\n*.Server.target_latency = 5000\n"
    ),
    "server-too-fast": RunCase(
        "Server",
        _COUNT + "*.*.min_duration = 300\n*.Server.target_qps = 2000\n*.Server.target_latency = 2\n",
        delay=0.001,
    ),
    "server-coalesced": RunCase(
        "Server",
        _COUNT + "*.*.min_duration = 300\n*.Server.target_qps = 2000\n*.Server.target_latency = 1\n"
        "*.Server.coalesce_queries = 1\n",
        delay=0.001,
    ),
    "server-too-few": RunCase(
        "Server",
        _COUNT + "*.*.min_duration = 0\n*.*.min_query_count = 200\n*.Server.target_qps = 2000\n"
        "*.Server.target_latency = 5000\n",
    ),
    "offline-valid": RunCase(
        "Offline", _COUNT + "*.*.min_duration = 0\n*.*.min_query_count = 2000\n*.Offline.target_qps = 1000\n"
    ),
    "offline-too-short": RunCase(
        "Offline", _COUNT + "*.*.min_duration = 60000\n*.*.min_query_count = 500\n*.Offline.target_qps = 10\n"
    ),
    "offline-audit": RunCase(
        "Offline",
        _COUNT + "*.*.min_duration = 0\n*.*.min_query_count = 500\n*.Offline.target_qps = 1000\n",
        audit="*.*.mode = 2\n*.*.accuracy_log_rng_seed = 720381539243781796\n*.*.accuracy_log_sampling_target = 64\n",
    ),
    "server-tokens": RunCase(
        "Server",
        _COUNT + "*.*.min_duration = 1000\n*.*.min_query_count = 700\n*.Server.target_qps = 500\n"
        "*.Server.target_latency = 5000\n*.*.use_token_latencies = 1\n*.Server.ttft_latency = 5000\n"
        "*.Server.tpot_latency = 5000\n",
    ),
    "offline-tokens": RunCase(
        "Offline",
        _COUNT + "*.*.min_duration = 0\n*.*.min_query_count = 2000\n*.Offline.target_qps = 1000\n"
        "*.*.use_token_latencies = 1\n",
    ),
    "offline-accuracy": RunCase("Offline", _COUNT + "*.Offline.target_qps = 1000\n", mode="AccuracyOnly"),
    "server-accuracy": RunCase("Server", _COUNT + "*.Server.target_qps = 5000\n", mode="AccuracyOnly"),
}


@dataclass(frozen=True)
class Run:
    """A finished run: its case and its files."""

    case: RunCase
    folder: Path

    def bytes(self, name: str) -> bytes:
        return (self.folder / f"mlperf_log_{name}").read_bytes()

    @property
    def detail(self) -> DetailLog:
        return parse_detail(self.bytes("detail.txt"), "mlperf_log_detail.txt")


def _child(verb: str, request: dict[str, Any], folder: Path) -> str:
    path = folder / "request.json"
    path.write_text(json.dumps(request))
    done = subprocess.run(
        [sys.executable, str(CHILD), verb, str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def loadgen_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """The kept logs of a case by its name in RUNS."""
    kept = make_once(tmp_path_factory, "kept-runs", partial(unpack, "runs"))
    return lambda name: Run(RUNS[name], kept / name / "logs")


def make_run(case: RunCase, folder: Path) -> Run:
    """Run a case now; its logs are below the folder."""
    logs = folder / "logs"
    logs.mkdir()
    (folder / "user.conf").write_text(case.conf)
    (folder / "audit.config").write_text(case.audit)
    request = {
        "user_conf": str(folder / "user.conf"),
        "model": "resnet50",
        "scenario": case.scenario,
        "mode": case.mode,
        "log_dir": str(logs),
        "total": TOTAL,
        "loaded": LOADED,
        "delay": case.delay,
        "stalls_at": case.stalls_at,
        "tokens": case.tokens,
        "audit": str(folder / "audit.config") if case.audit else "",
    }
    _child("run", request, folder)
    return Run(case, logs)


@pytest.fixture(scope="session")
def loadgen_read(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[dict[str, Any]]]:
    """What LoadGen reads from confs: (bytes, model, scenario) gives the attributes of TestSettings, for each."""
    need("mlperf_loadgen")

    def get(confs: list[tuple[bytes, str, str]], conf_type: int = 2) -> list[dict[str, Any]]:
        folder = tmp_path_factory.mktemp("read")
        request = {
            "scratch": str(folder / "user.conf"),
            "confs": [
                {"data": data.hex(), "model": model, "scenario": scenario, "type": conf_type}
                for data, model, scenario in confs
            ],
        }
        answers: list[dict[str, Any]] = json.loads(_child("read", request, folder))
        return answers

    return get

"""Start child processes of the harness and bare programs for benchmarks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness.contract import Benchmark, BuildRequest, FileMessage, Mode, Result, Scenario
from tests.requests import make_run_request

ROOT = Path(__file__).resolve().parents[2]
MAIN = "from reconciler.cli.main import main; import sys; sys.argv[0] = 'reconcile'; sys.exit(main())"


def start(command: list[str], folder: Path) -> str:
    """Run a Python program to its end and return its output. Raises RuntimeError with the output if it fails."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RECONCILE_PARENT": str(os.getpid())}
    done = subprocess.run(
        [sys.executable, "-P", *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{command} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def reconcile(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the program in a repository."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", MAIN, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def child(request: FileMessage, folder: Path) -> Result:
    """Run one child process of the harness. Raises RuntimeError if it reports a problem."""
    place = Path(tempfile.mkdtemp(dir=folder))
    request.write(place / "request.json")
    start(["-m", "harness", request.verb, str(place / "request.json"), str(place / "result.json")], place)
    result = Result.read(place / "result.json")
    if not result.done:
        raise RuntimeError(f"{result.problem}: {result.fix}")
    return result


def build(folder: Path, kind: Any, benchmark: Benchmark, **request: Any) -> Path:
    """Build an artifact into a new folder."""
    output = Path(tempfile.mkdtemp(prefix=kind, dir=folder))
    child(
        BuildRequest(kind=kind, benchmark=benchmark, output=str(output), counter=str(folder / "counter"), **request),
        folder,
    )
    return output


class Case:
    """A benchmark with its dataset and model. ``data`` and ``model``: their sources, if it does not make them."""

    def __init__(self, folder: Path, benchmark: Benchmark, data: Path | None = None, model: Path | None = None) -> None:
        self.folder, self.benchmark = folder, benchmark
        self.dataset = build(folder, "Dataset", benchmark, source=str(data) if data else None)
        inputs = {"dataset": str(self.dataset)}
        self.model = build(folder, "Model", benchmark, source=str(model) if model else None, inputs=inputs)

    def engine(self, backend: str, **settings: Any) -> Path:
        inputs = {"model": str(self.model)}
        return build(self.folder, "Engine", self.benchmark, backend=backend, settings=settings, inputs=inputs)

    def offline(self, backend: str, engine: Path, count: int, **settings: Any) -> float:
        """Return samples/s of an Offline run over ``count`` samples."""
        conf: dict[str, int | float] = {"min_duration": 0, "min_query_count": count, "target_qps": 1}
        own: dict[str, Any] = {"benchmark": self.benchmark, "dataset": self.dataset, "engine": engine, "conf": conf}
        log = run(self.folder, "Offline", backend=backend, settings=settings, **own)
        return float(log["result_samples_per_second"])


def bare(program: str, settings: dict[str, Any], folder: Path, module: str = "tests.benchmarks.bare") -> dict[str, Any]:
    """Run a program of ``module`` and return its JSON output. Libraries may print more before and after it."""
    printed = start(["-m", module, program, json.dumps(settings)], folder)
    (line,) = (line for line in printed.splitlines() if line.startswith("{"))
    found: dict[str, Any] = json.loads(line)
    return found


def run(
    folder: Path,
    scenario: Scenario,
    *,
    benchmark: Benchmark,
    backend: str,
    dataset: Path,
    conf: dict[str, int | float],
    engine: Path | None = None,
    model: Path | None = None,
    model_key: str = "resnet50",
    settings: dict[str, Any] | None = None,
    mode: Mode = "performance",
) -> dict[str, Any]:
    """Run the harness with LoadGen. Return the detail log by key, telemetry and backend facts by name, and the log's
    "folder". ``conf``: lines of user.conf."""
    place = Path(tempfile.mkdtemp(dir=folder))
    write_conf(place / "user.conf", scenario, conf)
    folders = {"dataset": dataset, "engine": engine, "model": model}
    inputs = {name: str(path) for name, path in folders.items() if path is not None}
    done = child(
        make_run_request(
            place,
            benchmark=benchmark,
            backend=backend,
            scenario=scenario,
            mode=mode,
            model_key=model_key,
            settings=settings or {},
            inputs=inputs,
        ),
        place,
    )
    counted = {name: fact.value for name, fact in done.facts.items() if name.startswith(("telemetry.", "backend."))}
    return read_detail(place) | counted | {"folder": str(place)}


def write_conf(path: Path, scenario: str, conf: dict[str, int | float]) -> None:
    path.write_text("".join(f"*.{scenario}.{name} = {value}\n" for name, value in conf.items()), encoding="ascii")


def read_detail(folder: Path) -> dict[str, Any]:
    lines = (folder / "mlperf_log_detail.txt").read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line.removeprefix(":::MLLOG ")) for line in lines]
    return {entry["key"]: entry["value"] for entry in entries}

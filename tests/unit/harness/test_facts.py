"""What a run records of itself, what a probe measures, and how problems are reported."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path

import pytest

from harness.child.digests import hash_code, hash_folder
from harness.contract import Fact, ProbeRequest, read_progress
from harness.errors import HarnessError, ProblemClass, explain
from harness.machine.telemetry import Telemetry
from tests.unit.harness.children import Children
from tests.unit.harness.conftest import ENGINES, Artifacts

EVIDENCE = {
    "backend.digest",
    "backend.version",
    "benchmark.code",
    "engine.digest",
    "harness.code",
    "loadgen.digest",
    "loadgen.version",
}


@pytest.mark.parametrize("backend", ENGINES)
def test_run_names_all_that_must_be_equal_across_runs(backend: str, children: Children, artifacts: Artifacts) -> None:
    inputs = artifacts.inputs(backend)
    ended = children.run("Offline", backend=backend, inputs=inputs, settings={"batch_size": 8, "threads": 1})
    facts = ended.result.facts
    assert {name for name, fact in facts.items() if fact.role == "evidence"} == EVIDENCE
    assert all(facts[name].value for name in EVIDENCE)
    assert facts["harness.code"].value == hash_code()
    assert facts["engine.digest"].value == hash_folder(Path(inputs["engine"]))
    assert facts["backend.threads"] == Fact(value=1, role="note")
    assert facts["telemetry.load_percent"].value["count"] >= 1
    progress = read_progress(ended.folder / "counter")
    assert progress is not None
    assert progress.stage == "done"


def test_settings_are_read_back_from_loadgen(children: Children, artifacts: Artifacts) -> None:
    conf = "*.*.min_duration = 0\n*.Offline.target_qps = 7.5\nresnet50.Offline.min_query_count = 81\n"
    ended = children.run("Offline", backend="null", conf=conf, inputs=artifacts.inputs("null"))
    settings = ended.result.values["loadgen"]["settings"]
    assert (settings["offline_expected_qps"], settings["min_query_count"]) == (7.5, 81)
    assert (settings["scenario"], settings["mode"]) == ("Offline", "PerformanceOnly")
    assert settings["performance_sample_count_override"] == 1024  # the built-in mlperf.conf was read
    assert settings["qsl_rng_seed"] == ended.detail["effective_qsl_rng_seed"]


def test_probe_measures_the_seeds_that_runs_use(children: Children, artifacts: Artifacts) -> None:
    probed = children.start(ProbeRequest(seeds=True), children.place()).result
    ran = children.run("Offline", backend="null", inputs=artifacts.inputs("null"))
    assert probed.done
    assert probed.values["seeds"] == {name: ran.detail[f"effective_{name}"] for name in probed.values["seeds"]}
    assert len({*probed.values["seeds"].values(), 0}) == 4


def test_readings_are_logged_as_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.machine.telemetry._INTERVAL", 0.01)
    monkeypatch.setattr("harness.machine.telemetry._SHARE", 1.0)
    log, done = tmp_path / "telemetry.jsonl", iter(range(10, 10_000, 10))
    with Telemetry(log=log, done=lambda: next(done)):
        while not log.exists() or len(log.read_text().splitlines()) < 3:
            time.sleep(0.01)
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert [row["done"] for row in rows[:3]] == [10, 20, 30]
    assert all({"seconds", "load_percent", "memory_bytes"} <= row.keys() for row in rows)
    assert [row["seconds"] for row in rows] == sorted(row["seconds"] for row in rows)


@pytest.mark.parametrize(
    ("error", "problem_class", "fix"),
    [
        (HarnessError("p", "input", "f"), "input", "f"),
        (ModuleNotFoundError("No module named 'onnx'", name="onnx"), "missing", "mlperf-reconciler[cpu]"),
        (
            ModuleNotFoundError("No module named 'torch'", name="torch"),
            "missing",
            "pip install 'mlperf-reconciler[pytorch]'",
        ),
        (MemoryError(), "resources", "batch_size"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "resources", "disk space"),
        (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), "resources", "memory"),
        (FileNotFoundError(errno.ENOENT, "gone", "a.npy"), "missing", "path"),
        (PermissionError(errno.EACCES, "no", "a.npy"), "input", "permissions"),
        (KeyError("x"), "crash", "traceback"),
    ],
)
def test_every_exception_becomes_a_problem(error: BaseException, problem_class: ProblemClass, fix: str) -> None:
    known = explain(error)
    assert known.problem_class == problem_class
    assert fix in known.fix
    assert known.problem

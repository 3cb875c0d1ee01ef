"""Plans for loading a backend, for a run and for its background loads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.backends import Completed, Failed, LoadPlan
from harness.benchmarks import BenchmarkCode, TensorBenchmark
from harness.catalog import CpuRunOptions, EngineSettings
from harness.contract import BACKENDS, BackgroundLoad, RunRequest, Scenario
from harness.errors import HarnessError, require


def make_load_plan(
    asked: RunRequest | BackgroundLoad,
    benchmark: BenchmarkCode,
    *,
    scenario: Scenario,
    completed: Completed,
    failed: Failed,
    folder: Path,
    more: Mapping[str, Any],
) -> LoadPlan:
    """Make the plan. ``more``: options that no spec declares. Raises HarnessError if the engine is missing, or a size
    is wrong."""
    built, run = EngineSettings(asked.settings), CpuRunOptions(asked.settings)
    if built.batch_size < 1 or run.streams < 1:
        problem = f"batch_size {built.batch_size} and streams {run.streams} must be at least 1"
        raise HarnessError(problem, "input", "correct the spec")
    engine, backend = asked.inputs.get("engine"), BACKENDS[asked.backend]
    options = {**backend.run, **({} if backend.builds_engine else backend.engine)}
    own: dict[str, Any] = {}
    if isinstance(benchmark, TensorBenchmark):
        dataset = Path(asked.inputs["dataset"])
        own = {"pipeline": dict(benchmark.pipeline), "shared": benchmark.load_shared(dataset)}
        own["collate"] = benchmark.load_collate(dataset)
    if isinstance(asked, RunRequest):
        own |= {"service_url": asked.service_url, "service_log": asked.service_log}
        own["source"] = Path(asked.sources["model"]) if "model" in asked.sources else None
    return LoadPlan(
        engine=require(Path(engine), "the engine") if engine else None,
        scenario=scenario,
        batch_size=built.batch_size,
        streams=run.streams,
        threads=run.threads,
        outputs=benchmark.list_outputs(),
        options={**{name: value for name, value in asked.settings.items() if name in options}, **more},
        completed=completed,
        failed=failed,
        folder=folder,
        model=Path(asked.inputs["model"]) if "model" in asked.inputs else None,
        precision=built.precision,
        packing=benchmark.packing,
        **own,
    )

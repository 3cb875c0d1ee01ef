"""Plans of a load and of a build, of which a test says what matters to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.backends import BuildPlan, LoadPlan
from harness.contract import Counter


def make_load_plan(**changed: Any) -> LoadPlan:
    plan: dict[str, Any] = {"engine": None, "scenario": "Offline", "batch_size": 1, "streams": 1, "threads": 0}
    plan |= {"outputs": (), "options": {}, "completed": lambda *_: None, "failed": lambda *_: None}
    return LoadPlan(**plan | changed)


def make_build_plan(
    model: Path, output: Path, *, batch_size: int = 4, precision: str = "fp32", **options: Any
) -> BuildPlan:
    output.mkdir(exist_ok=True, parents=True)
    counter = Counter(output.with_name(f"{output.name}.counter"))
    return BuildPlan(
        model=model, output=output, batch_size=batch_size, precision=precision, options=options, counter=counter
    )

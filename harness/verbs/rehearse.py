"""``rehearse``: generate a benchmark's dataset and network in their published formats."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from harness.benchmarks import load_rehearsal
from harness.benchmarks.sources import REHEARSAL
from harness.contract import Counter, RehearseRequest, Result


def execute(request: RehearseRequest, _give_up: Callable[[BaseException], None]) -> Result:
    """Create ``output``/data, with the mark of a rehearsal, and ``output``/models; all of it or nothing."""
    began = time.monotonic()
    counter = Counter(request.counter)
    counter.stage("building", request.count)
    name, output = request.benchmark.name, Path(request.output)
    write_rehearsal = load_rehearsal(name)
    aside = output.with_name(f".{output.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)  # what an interrupted rehearsal left behind
    data, models = aside / "data", aside / "models"
    data.mkdir(parents=True)
    models.mkdir()
    write_rehearsal(data, models, count=request.count, seed=request.seed, size=request.size, counter=counter)
    made = {"benchmark": name, "count": request.count, "seed": request.seed, "size": request.size}
    (data / REHEARSAL).write_text(json.dumps(made, sort_keys=True) + "\n", encoding="utf-8")
    shutil.rmtree(output, ignore_errors=True)
    aside.replace(output)
    counter.stage("done")
    return Result(done=True, seconds=time.monotonic() - began, values=made)

"""Compare the CUDA pipeline with an engine that computes nothing to a bare LoadGen null SUT.

``python -m tests.gpu.ceiling`` prints one JSON document. The pipeline does everything that it does for a real engine:
copies, events, completion threads. Samples have 64 bytes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from harness.backends import LoadPlan, Tensor
from harness.contract import Benchmark, Fact
from harness.cuda.driver import Device
from harness.cuda.pipeline import CudaSession
from tests.benchmarks.children import ROOT, build, read_detail, write_conf
from tests.benchmarks.harness import bare_offline
from tests.requests import make_run_request

SAMPLES, BATCH = 2_000_000, 2048
TINY = Benchmark(name="points", path=str(Path(__file__).with_name("points.py")))


class Nothing:
    """An engine on one device that does not change its outputs."""

    batch_sizes: Sequence[int] = ()
    inputs = (Tensor("x", (16,), "float32"),)
    capturable = False

    def __init__(self, plan: LoadPlan, device: Device) -> None:
        self.batch_size, self.notes = plan.batch_size, {"device": device.name}

    def outputs(self, _inputs: Any) -> Sequence[Tensor]:
        return (Tensor("y", (1,), "float32"),)

    def wanted(self, _inputs: Any) -> int:
        return 0

    def open(self, *_: Any) -> Nothing:
        return self

    def prepare(self, _size: int) -> Callable[[], None]:
        return lambda: None


def facts() -> dict[str, Fact]:
    return {}


def load(plan: LoadPlan) -> CudaSession:
    return CudaSession(plan, partial(Nothing, plan))


def harness_offline(folder: Path, dataset: Path, streams: int) -> float:
    """Run a child process of the harness with this module as the null backend."""
    place = Path(tempfile.mkdtemp(dir=folder))
    write_conf(place / "user.conf", "Offline", {"min_duration": 0, "min_query_count": SAMPLES, "target_qps": 1})
    make_run_request(
        place, benchmark=TINY, settings={"batch_size": BATCH, "streams": streams}, inputs={"dataset": str(dataset)}
    ).write(place / "request.json")
    program = (
        "import sys; from harness.catalog import BACKENDS; "
        "BACKENDS['null'] = BACKENDS['null']._replace(module='tests.gpu.ceiling'); "
        "from harness.__main__ import main; main(sys.argv[1:])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RECONCILE_PARENT": str(os.getpid())}
    arguments = ["run", str(place / "request.json"), str(place / "result.json")]
    done = subprocess.run([sys.executable, "-c", program, *arguments], env=environment, capture_output=True, text=True)
    try:
        return float(read_detail(place)["result_samples_per_second"])
    except (OSError, KeyError):
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:]) from None


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dataset = build(folder, "Dataset", TINY)
        found = []
        for _ in range(3):
            found.append(
                {
                    "bare": bare_offline(folder, SAMPLES),
                    "pipeline_1": harness_offline(folder, dataset, 1),
                    "pipeline_2": harness_offline(folder, dataset, 2),
                }
            )
    ratios = sorted(max(item["pipeline_1"], item["pipeline_2"]) / item["bare"] for item in found)
    print(json.dumps({"ceiling": {"ratio": round(ratios[1], 3), "rounds": found}}))


if __name__ == "__main__":
    main()

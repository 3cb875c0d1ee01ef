"""Complete passes on a GPU produce engines, runs, records and a tree, and a second pass does nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.machine.facts import list_accelerators
from tests.benchmarks.children import reconcile

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(900)]

SPEC = """\
apiVersion: mlperf-reconciler/v1
kind: Submission
metadata: {name: gpu}
spec:
  round: v6.1
  submitter: Tester
  rehearsal: true
  systems:
    gpu-box:
      category: edge
      status: available
      hardware: {accelerator: "%(device)s", count: 1}
  benchmarks:
    resnet50:
      as: resnet
      code: %(code)s
      model: {retraining: "No", settings: {blocks: "1,1,1,1", side: 64}}
      dataset: {settings: {count: 512, side: 64, dtype: float16}}
      engine: {backend: %(backend)s, precision: fp16, batch_size: 8, options: {half_inputs: true%(level)s}}
      min_duration: 0
      run: {streams: 2%(search)s}
  divisions:
    open:
      gpu-box:
        resnet50:
          SingleStream: {min_query_count: 1000}
          MultiStream: {min_query_count: 700}
          Server: {target_qps: 2000, target_latency: 15 ms, min_query_count: 4000, engine: {batch_size: 32}}
          Offline: {target_qps: 20000, min_query_count: 40000, engine: {batch_size: 64}}
"""


@pytest.mark.parametrize("backend", ["tensorrt", "onnxruntime-cuda"])
def test_a_pass_does_everything_and_a_second_nothing(tmp_path: Path, backend: str) -> None:
    pytest.importorskip("tensorrt_bindings" if backend == "tensorrt" else "onnxruntime")
    devices = list_accelerators()
    assert devices, "no GPU"
    (tmp_path / "specs").mkdir()
    (tmp_path / "resnet50.py").write_text((Path(__file__).parent / "resnet.py").read_text())
    level = ", optimization_level: 1" if backend == "tensorrt" else ""
    search = "" if backend == "tensorrt" else ", options: {convolution_search: heuristic}"
    settings = {
        "search": search,
        "device": devices[0]["name"],
        "code": "resnet50.py",
        "backend": backend,
        "level": level,
    }
    (tmp_path / "specs/gpu.yaml").write_text(SPEC % settings)
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    first = reconcile(tmp_path, "specs/gpu.yaml")
    print(first.stdout[-6000:], first.stderr[-3000:])
    assert first.returncode in (0, 2)  # 2: a finding of the round's checks, such as an accuracy that means nothing
    kinds = [path.name for path in (tmp_path / "state/records").rglob("*.json")]
    print(len(kinds), "records")
    second = reconcile(tmp_path, "specs/gpu.yaml")
    print(second.stdout[-2000:], second.stderr[-1000:])
    assert len(list((tmp_path / "state/records").rglob("*.json"))) == len(kinds)
    logs = list((tmp_path / ".reconcile").rglob("*"))
    assert logs

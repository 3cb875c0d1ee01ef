"""What comes with a benchmark of MLPerf, so that a line of a spec is enough."""

from __future__ import annotations

import pytest

from harness.contract import BACKENDS
from reconciler.errors import SpecError
from reconciler.rules.benchmark_facts import load_benchmark_facts
from reconciler.spec.checks import can_compute
from reconciler.spec.declared import Declared
from tests.unit.spec.writing import declare

_SPEC = """apiVersion: mlperf-reconciler/v1
kind: Submission
metadata: {name: one}
spec:
  round: v6.1
  submitter: ACME
  systems: {box: {category: edge, status: availableHARDWARE}}
  benchmarks: {NAME: {dataset: {path: data}, model: {path: net.onnx}MORE}}
  divisions: {open: {box: {NAME: {Offline: {target_qps: 10}}}}}
"""


def declare_one(name: str, hardware: str = "", more: str = "") -> Declared:
    text = _SPEC.replace("NAME", name).replace("HARDWARE", hardware and f", hardware: {{{hardware}}}")
    return declare(text.replace("MORE", more and f", {more}"))


@pytest.mark.parametrize(
    ("name", "hardware", "more", "backend"),
    [
        ("resnet50", "", "", "onnxruntime"),
        ("bert-99.9", "accelerator: none", "", "onnxruntime"),
        ("resnet50", "accelerator: NVIDIA L4, count: 1", "", "tensorrt"),
        ("dlrm-v2-99", "", "", "onnxruntime"),
        ("resnet50", "", "engine: {backend: openvino}", "openvino"),
        ("resnet50", "", "code: digits, engine: {backend: onnxruntime}", "onnxruntime"),
    ],
)
def test_what_computes_a_benchmark_follows_from_the_system_where_the_spec_does_not_say(
    name: str, hardware: str, more: str, backend: str
) -> None:
    (cell,) = declare_one(name, hardware, more).cells
    assert cell.settings["engine.backend"].value == backend
    assert (cell.settings["engine.backend"].origin.file == f"benchmark {load_code(name)}") is ("engine" not in more)


def load_code(name: str) -> str:
    return next(code for code, facts in load_benchmark_facts().items() if name in facts.names)


@pytest.mark.parametrize(
    ("name", "hardware"),
    [
        ("resnet50", "accelerator: AMD MI300X, count: 8"),
        ("rnnt", "accelerator: NVIDIA L4, count: 1"),
        ("llama3.1-8b", ""),
    ],
)
def test_where_nothing_is_known_to_compute_it_the_spec_has_to_say(name: str, hardware: str) -> None:
    with pytest.raises(SpecError, match="no backend is chosen for this cell"):
        declare_one(name, hardware)


def test_backends_that_come_with_benchmarks_exist() -> None:
    found = {backend for facts in load_benchmark_facts().values() for backend in facts.backends.values()}
    assert found <= set(BACKENDS)
    assert found == {"onnxruntime", "tensorrt"}
    assert {kind for facts in load_benchmark_facts().values() for kind in facts.backends} == {"cpu", "nvidia"}


@pytest.mark.parametrize(
    ("name", "backend", "able"),
    [
        ("llama3.1-405b", "tensorrt", "vllm"),
        ("llama2-70b-99", "onnxruntime", "openai"),
        ("rgat", "tensorrt", "pytorch"),
        ("stable-diffusion-xl", "tensorrt", "diffusers"),
        ("whisper", "openai", "vllm"),
        ("resnet50", "vllm", "onnxruntime"),
        ("bert-99", "openai", "tensorrt"),
    ],
)
def test_a_backend_that_cannot_compute_a_benchmark_is_refused_where_it_is_written(
    name: str, backend: str, able: str
) -> None:
    with pytest.raises(SpecError) as caught:
        declare_one(name, more=f"engine: {{backend: {backend}}}")
    (problem,) = caught.value.problems
    assert (problem.line, problem.path) == (8, f"spec.benchmarks.{name}.engine.backend")
    assert able in problem.fix
    declare_one(name, more=f"engine: {{backend: {able}}}")


def test_a_command_computes_whatever_it_can() -> None:
    command = "harness: {command: [run, '{run_dir}', '{user_conf}'], score: {command: [score]}}"
    declare_one("llama3.1-405b", more=f"engine: {{backend: tensorrt}}, {command}")


def test_every_built_in_benchmark_has_a_backend() -> None:
    for facts in load_benchmark_facts().values():
        if facts.support.runs:
            named = [str(facts.rehearsal.benchmark["engine"]["backend"])] if facts.rehearsal else []
            for backend in (*named, *facts.backends.values()):
                assert can_compute(BACKENDS[backend], facts), (facts.code, backend)

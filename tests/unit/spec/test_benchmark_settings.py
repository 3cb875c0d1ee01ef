"""Settings of a dataset or model that a built-in benchmark does not read are reported with their line."""

from __future__ import annotations

import pytest

from harness.contract import BACKENDS
from reconciler.errors import SpecError
from reconciler.rules.benchmark_facts import load_benchmark_facts
from reconciler.spec.checks import can_compute
from reconciler.spec.declared import Declared
from tests.unit.spec.writing import catch_problems, declare, give_head

_SPEC = give_head("""\
  systems: {box: {category: edge, status: available}}
  benchmarks:
    NAME:
      engine: {backend: onnxruntime}
      SETTINGS
  divisions: {open: {box: {NAME: {Offline: {target_qps: 10}}}}}
""")


def declare_one(settings: str, name: str = "resnet50") -> None:
    declare(_SPEC.replace("NAME", name).replace("SETTINGS", settings))


@pytest.mark.parametrize(
    ("settings", "message", "fix"),
    [
        ("dataset: {settings: {dtpye: float16}}", "dtpye is not a setting of this dataset", "write dtype"),
        ("dataset: {settings: {dtype: int8}}", "'int8' is not a valid dtype", "float32, float16"),
        ("dataset: {settings: {count: -1}}", "expected a number of 0 or more, not '-1'", "count: 8"),
        ("dataset: {settings: {threads: many}}", "expected a number of 0 or more, not 'many'", "threads: 8"),
        ("model: {settings: {precison: int8}}", "precison is not a setting of this model", "write precision"),
        ("model: {settings: {precision: int9}}", "'int9' is not a valid precision", "write int8"),
        ("model: {settings: {quantize_residuals: 'no'}}", "expected true or false, not 'no'", "true' or false"),
    ],
)
def test_a_setting_that_the_benchmark_does_not_read_is_reported(settings: str, message: str, fix: str) -> None:
    """It would change a key and nothing else, or fail after other steps have taken their hours."""
    (problem,) = catch_problems(declare_one, settings)
    assert (problem.line, problem.path.startswith("spec.benchmarks.resnet50.")) == (11, True)
    assert message in problem.message
    assert fix in problem.fix


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("resnet50", "dataset: {settings: {dtype: float16, count: 100, threads: 4}}"),
        ("bert", "dataset: {settings: {dtype: int32, unpublished: true}}"),
        ("resnet50", "model: {settings: {precision: int8, calibration_method: entropy, calibration_count: 64}}"),
        ("dlrm-v2", "model: {settings: {format: pt2}}"),
        ("digits", "as: resnet\n      model: {settings: {epochs: 3, anything: 1}}"),
    ],
)
def test_what_a_benchmark_reads_may_be_written(name: str, settings: str) -> None:
    declare_one(settings, name)


def test_every_benchmark_that_runs_here_says_what_its_dataset_and_model_are_made_with() -> None:
    for facts in load_benchmark_facts().values():
        reported = (facts.dataset.settings is not None, facts.model.settings is not None)
        assert reported == (facts.code not in ("e2e_rag", "qwen3_6_27b"),) * 2, facts.code


@pytest.mark.parametrize("name", ["rnnt", "pointpainting", "rgat", "llama3.1-8b"])
def test_a_precision_in_which_a_model_cannot_be_made_is_refused(name: str) -> None:
    backend = {"rgat": "pytorch", "llama3.1-8b": "openvino-genai"}.get(name, "onnxruntime")
    text = SPEC.replace("NAME", name).replace("BACKEND", backend)
    (problem,) = catch_problems(declare, text.replace("PRECISION", "int8"))
    assert problem.path == f"spec.benchmarks.{name}.model.settings.precision"
    assert "fp32" in problem.fix
    declare(text.replace("PRECISION", "fp32"))


SPEC = give_head("""\
  systems: {box: {category: edge, status: available}}
  benchmarks:
    NAME: {dataset: {path: data}, model: {path: net, settings: {precision: PRECISION}}, engine: {backend: BACKEND}}
  divisions: {open: {box: {NAME: {Offline: {target_qps: 10}}}}}
""")


_SPEC_BENCHMARK_DEFAULTS = give_head("""\
  systems: {box: {category: edge, status: availableHARDWARE}}
  benchmarks: {NAME: {dataset: {path: data}, model: {path: net.onnx}MORE}}
  divisions: {open: {box: {NAME: {Offline: {target_qps: 10}}}}}
""")


def declare_one_of_benchmark_defaults(name: str, hardware: str = "", more: str = "") -> Declared:
    text = _SPEC_BENCHMARK_DEFAULTS.replace("NAME", name).replace(
        "HARDWARE", hardware and f", hardware: {{{hardware}}}"
    )
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
    (cell,) = declare_one_of_benchmark_defaults(name, hardware, more).cells
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
    with pytest.raises(SpecError, match="this cell has no backend"):
        declare_one_of_benchmark_defaults(name, hardware)


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
def test_a_backend_that_cannot_compute_a_benchmark_is_refused_at_it(name: str, backend: str, able: str) -> None:
    (problem,) = catch_problems(declare_one_of_benchmark_defaults, name, more=f"engine: {{backend: {backend}}}")
    assert (problem.line, problem.path) == (8, f"spec.benchmarks.{name}.engine.backend")
    assert able in problem.fix
    declare_one_of_benchmark_defaults(name, more=f"engine: {{backend: {able}}}")


def test_every_built_in_benchmark_has_a_backend() -> None:
    for facts in load_benchmark_facts().values():
        if facts.support.runs:
            named = [str(facts.rehearsal.benchmark["engine"]["backend"])] if facts.rehearsal else []
            for backend in (*named, *facts.backends.values()):
                assert can_compute(BACKENDS[backend], facts), (facts.code, backend)

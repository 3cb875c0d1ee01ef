"""What comes with a built-in benchmark, so that a spec need not say it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.contract import BENCHMARKS
from reconciler.mlperf.benchmark_facts import find_benchmark_facts, load_benchmark_facts
from reconciler.mlperf.rules.rounds import list_rounds, load_ruleset
from tests.unit.spec.writing import HEADER, load_texts

SPEC = """
metadata: {name: acme}
spec:
  round: v6.1
  submitter: ACME
  systems: {box: {category: edge, status: available}}
  benchmarks: {NAME: BLOCK}
  divisions: {open: {box: {NAME: {Offline: {target_qps: 54}}}}}
"""


def declare(folder: Path, name: str, block: str) -> dict[str, object]:
    """The settings of the one cell of a benchmark that the spec writes so."""
    text = SPEC.replace("NAME", name).replace("BLOCK", block)
    (cell,) = load_texts(folder, main=HEADER + text).cells
    return {setting: value.value for setting, value in cell.settings.items()}


@pytest.mark.parametrize("name", ["resnet50", "resnet"])
def test_two_paths_are_enough_for_a_benchmark_of_mlperf(tmp_path: Path, name: str) -> None:
    block = "{dataset: {path: data}, model: {path: m.onnx}, engine: {backend: onnxruntime}}"
    settings = declare(tmp_path, name, block)
    assert settings["benchmark.code"] == "resnet50"
    assert settings["benchmark.official"] == "resnet"
    assert settings["measurements.starting_weights_filename"] == "resnet50_v1.onnx"


def test_what_the_spec_says_wins(tmp_path: Path) -> None:
    block = "{model: {path: m.onnx, starting_weights_filename: own.onnx}, engine: {backend: onnxruntime}}"
    assert declare(tmp_path, "resnet", block)["measurements.starting_weights_filename"] == "own.onnx"


@pytest.mark.parametrize("name", ["resnet50", "resnet"])
def test_a_harness_command_prepares_a_benchmark_itself(tmp_path: Path, name: str) -> None:
    harness = "{command: [run, '{run_dir}', '{user_conf}'], code: harness, score: {command: [score]}}"
    settings = declare(tmp_path, name, f"{{as: resnet, harness: {harness}}}")
    assert settings["benchmark.code"] == "command"
    assert "measurements.starting_weights_filename" not in settings


def test_a_benchmark_under_another_name_still_brings_its_facts(tmp_path: Path) -> None:
    settings = declare(tmp_path, "pictures", "{code: resnet50, engine: {backend: onnxruntime}}")
    assert settings["benchmark.official"] == "resnet"


def test_facts_name_what_the_program_and_the_rounds_have() -> None:
    facts = load_benchmark_facts()
    assert facts
    rulesets = [load_ruleset(name) for name in list_rounds()]
    official = {name for ruleset in rulesets for name in (*ruleset.benchmarks, *ruleset.earlier)}
    for name, found in facts.items():
        assert BENCHMARKS[name].module == name
        assert set(found.names.values()) <= official
        assert all(find_benchmark_facts(known) is found for known in found.names)
    names = [name for found in facts.values() for name in found.names]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["resnet50", "3d-unet-99", "dlrm-v2-99"])
def test_measurements_tell_types_whatever_a_benchmarks_code_is_called(tmp_path: Path, name: str) -> None:
    settings = declare(tmp_path, name, "{engine: {backend: onnxruntime}}")
    assert settings["measurements.input_data_types"] == settings["measurements.weight_data_types"] == "fp32"


def test_measurements_tell_the_types_that_a_cell_computes_in(tmp_path: Path) -> None:
    plain = declare(tmp_path, "resnet50", "{engine: {backend: onnxruntime}}")
    assert plain["measurements.input_data_types"] == plain["measurements.weight_data_types"] == "fp32"
    assert (plain["measurements.retraining"], plain["measurements.weight_transformations"]) == ("No", "none")
    block = "{dataset: {settings: {dtype: float16}}, model: {settings: {precision: int8}}, engine: {backend: tensorrt}}"
    changed = declare(tmp_path, "resnet50", block)
    assert changed["measurements.input_data_types"] == "fp16"
    assert changed["measurements.weight_data_types"] == "int8"
    assert changed["measurements.weight_transformations"] == "quantized to int8"
    block = "{model: {settings: {weights: int4, sparsity: '2:4'}}, engine: {backend: onnxruntime}}"
    fewer = declare(tmp_path, "resnet50", block)
    assert fewer["measurements.weight_data_types"] == "int4"
    assert fewer["measurements.weight_transformations"] == "pruned to 2:4 sparsity, quantized to int4"

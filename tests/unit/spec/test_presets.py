"""Presets: what somebody published, taken only where a spec names it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.contract import BACKENDS
from reconciler.resource.inputs import Origin, Value
from reconciler.spec.declaration import list_presets
from reconciler.spec.files import Source
from reconciler.spec.loading import load_sources
from reconciler.spec.proposal import Proposal
from reconciler.spec.starter import render_starter_spec
from tests.unit.spec.writing import VALID, load_texts, problems_in

ENGINE = "      engine: {backend: onnxruntime, batch_size: 1}\n"


assert ENGINE in VALID


def load_with(folder: Path, benchmark: str, official: str = "llama3.1-8b") -> dict[str, Value]:
    """Settings of a cell whose benchmark says this."""
    declared = load_texts(folder, main=VALID.replace(ENGINE, benchmark).replace("as: resnet", f"as: {official}"))
    return dict(declared.cells[0].settings)


@pytest.mark.parametrize("name", list_presets())
def test_preset_is_a_right_spec_with_its_source(name: str, tmp_path: Path) -> None:
    preset = list_presets()[name]
    official = next((one for one in ("bert-99", "dlrm-v2-99", "stable-diffusion-xl") if one in preset.source), None)
    settings = load_with(tmp_path, f"      use: [{name}]\n", official or "llama3.1-8b")
    assert preset.source.startswith(("MLPerf Inference v5.1, ", "measured with "))
    assert settings[f"preset.{name}"] == Value(preset.source, Origin(f"preset {name}"))
    backend = BACKENDS[str(settings["engine.backend"].value)]
    assert backend.generates is not bool(official)
    taken = {key: value for key, value in settings.items() if key.startswith(("engine.", "run."))}
    assert len(taken) > 3
    assert {value.origin for value in taken.values()} == {Origin(f"preset {name}")}
    assert ("harness.service.command" in settings) is backend.serves


def test_what_is_written_next_to_it_wins(tmp_path: Path) -> None:
    settings = load_with(tmp_path, "      use: h100/vllm\n      run: {options: {sequences: 7}}\n")
    assert settings["run.options.sequences"].value == 7
    assert settings["run.options.sequences"].origin.file == "main.yaml"
    assert settings["run.options.batched_tokens"] == Value(4096, Origin("preset h100/vllm"))


def test_nothing_of_any_preset_is_taken_unasked(tmp_path: Path) -> None:
    settings = load_texts(tmp_path, main=VALID).cells[0].settings
    assert not [name for name, value in settings.items() if value.origin.file.startswith("preset") or "preset" in name]


def test_one_that_there_is_not_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    (problem,) = problems_in(tmp_path, main=VALID.replace(ENGINE, "      use: [h100/vlm]\n" + ENGINE))
    assert problem.message == "h100/vlm is not a preset"
    assert problem.fix.startswith("write h100/vllm (valid: ")


printable = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_categories=("Cc", "Cs")), min_size=1)


words = printable.filter(lambda text: text.strip() and "$" not in text)


@given(words, words, st.integers(0, 16))
def test_it_loads_whatever_the_machine(cpu: str, accelerator: str, count: int) -> None:
    described = {"host_processor_model_name": cpu, "accelerator_model_name": accelerator, "system_name": cpu}
    read = Proposal({"cpu": cpu, "accelerator": accelerator, "count": count}, described, ())
    text = render_starter_spec(read)
    declared = load_sources([Source("starter.yaml", text, "")], Path(), {})
    assert len(declared.cells) == 4
    assert declared.systems["this-machine"].settings["hardware.cpu"].value == cpu
    assert declared.systems["this-machine"].settings["hardware.accelerator"].value == accelerator
    assert declared.systems["this-machine"].description["accelerator_model_name"].value == accelerator


def test_the_commented_examples_load_too(tmp_path: Path) -> None:
    example = re.compile(r"^( +)# ( *(?:\w+:.*))$", re.MULTILINE)
    text = example.sub(r"\1\2", render_starter_spec()).replace(
        "64 characters, as 'sha256sum FILE' prints them", "a" * 64
    )
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "resnet.py").touch()
    declared = load_sources([Source("starter.yaml", text, "")], tmp_path, {"MLPERF_SCRATCH_PATH": "/scratch"})
    assert len(declared.cells) == 6
    assert declared.cells[-1].settings["model.path"].value == "/scratch/models/resnet50_v1.onnx"

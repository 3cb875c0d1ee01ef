from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from reconciler.spec.files import Source
from reconciler.spec.loading import load_sources
from reconciler.spec.proposal import Proposal
from reconciler.spec.starter import render_starter_spec

printable = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_categories=("Cc", "Cs")), min_size=1)
words = printable.filter(lambda text: text.strip() and "$" not in text)


@given(words, words, st.integers(0, 16))
def test_it_loads_whatever_the_machine(cpu: str, accelerator: str, count: int) -> None:
    described = {"host_processor_model_name": cpu, "accelerator_model_name": accelerator, "system_name": cpu}
    read = Proposal({"cpu": cpu, "accelerator": accelerator, "count": count}, described, ())
    text = render_starter_spec(read, schema="../s.json")
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

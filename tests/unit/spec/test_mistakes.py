"""Mistakes that people make in specs: each is named at its line and column, with what to write instead, and by itself.

They are in mistakes.yaml, of one piece, so that a message that grows worse for one is seen next to the others.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from reconciler.desired.checks import check_reading
from reconciler.desired.compile import find_gaps
from reconciler.errors import Problem, SpecError
from reconciler.rules.rounds import load_ruleset
from reconciler.spec.checks import find_absent_code
from reconciler.spec.files import Source, decode
from reconciler.spec.loading import read_texts

SPEC = """\
apiVersion: mlperf-reconciler/v1
kind: Submission
metadata: {name: acme}
spec:
  round: v6.1
  submitter: ACME
  documents: {calibration: docs/calibration.md}
  defaults:
    long:
      min_duration: 600 s
  systems:
    box:
      category: edge
      status: available
      hardware: {accelerator: NVIDIA L4, count: 1}
      description:
%s
        cooling: air
  benchmarks:
    resnet:
      code: resnet50
      use: [long]
      model: {path: "${NETS}/resnet50.onnx"}
      engine: {backend: tensorrt, precision: fp16, batch_size: 16}
      measurements: {weight_data_types: fp16, weight_transformations: none}
    llama2-70b-99.9:
      harness:
        command: [python, run.py, --user-conf, "{user_conf}", --logs, "{run_dir}"]
        code: ours
        score: {command: [python, score.py, "{accuracy_log}"]}
      measurements: {input_data_types: int32, weight_data_types: fp8, weight_transformations: quantization}
      model: {starting_weights_filename: llama2.safetensors, retraining: "No"}
  divisions:
    closed:
      box:
        resnet:
          SingleStream: {target_latency: 2 ms}
          MultiStream: {target_latency: 5 ms}
          Offline: {target_qps: 54}
    open:
      box:
        llama2-70b-99.9:
          Server: {target_qps: 5}
"""
_FIELDS = [field.name for field in load_ruleset("v6.1").system_fields]
_FOLLOWING = ("division", "submitter", "status", "system_type", "cooling")
SPEC %= "\n".join(f'        {name}: "1"' for name in _FIELDS if name not in _FOLLOWING)

MISTAKES = YAML(typ="safe").load(Path(__file__).with_name("mistakes.yaml"))


def complain(text: str, root: Path) -> list[Problem]:
    """What `validate` names: problems, else the gaps of a valid spec."""
    (root / "ours").mkdir(exist_ok=True)
    source = decode(text.encode(), "main.yaml")
    sources, problems = ([source], []) if isinstance(source, Source) else ([], [source])
    reading = read_texts(sources, root, {"NETS": "/mnt/somewhere/nets", "HOME": "/home/somebody"}, problems)
    try:
        declared, ruleset = check_reading(reading, load_ruleset)
    except SpecError as error:
        return error.problems
    return [*find_gaps(declared, ruleset), *find_absent_code(declared, root)[0]]


def test_without_a_mistake_nothing_is_said(tmp_path: Path) -> None:
    assert complain(SPEC, tmp_path) == []


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_where_it_is_with_its_fix(name: str, tmp_path: Path) -> None:
    before, after = MISTAKES[name]["before"], MISTAKES[name]["after"]
    assert SPEC.count(before) == 1, "the replacement must be about one place"
    marked = SPEC.replace(before, after)
    found = complain(marked.replace("§", ""), tmp_path)
    if "§" in after:
        head = marked[: marked.index("§")]
        place = head.count("\n") + 1, len(head) - head.rfind("\n")
        assert [(problem.line, problem.column) for problem in found] == [place]
    assert len(found) == 1
    assert found[0].message
    assert MISTAKES[name].get("name", "") in found[0].fix


@pytest.mark.parametrize(
    ("written", "meant"),
    [("resnt", "resnet"), ("llama3-8b", "llama3.1-8b"), ("resnet-99.9", "resnet"), ("retinanet-99", "retinanet")],
)
def test_a_benchmark_without_code_gets_the_nearest_name_of_a_round(written: str, meant: str, tmp_path: Path) -> None:
    spec = SPEC.replace("      code: resnet50\n", "").replace("resnet:", f"{written}:")
    found = complain(spec, tmp_path)
    assert len(found) == 1
    assert f"write {meant}," in found[0].fix


def test_what_a_command_calibrated_has_to_be_written_down(tmp_path: Path) -> None:
    """Of our own harness's runs the records say it."""
    spec = SPEC.replace("  documents: {calibration: docs/calibration.md}\n", "")
    assert complain(spec, tmp_path) == []
    harness = spec[spec.index("      harness:\n") : spec.index("      measurements: {input")]
    commanded = spec.replace("      code: resnet50\n", harness, 1)
    (found,) = (problem for problem in complain(commanded, tmp_path) if problem.path == "spec.documents")
    assert "no calibration document" in found.message
    assert "documents: {calibration" in found.fix

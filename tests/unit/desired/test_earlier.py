"""What a benchmark may be entered as: names of the round once each, and in open those of earlier rounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.desired.checks import check
from reconciler.desired.compile import compile_desired
from reconciler.desired.state import Desired, Pins
from reconciler.errors import SpecError
from reconciler.resource.kinds import Address
from reconciler.rules.rounds import load_ruleset
from tests.unit.spec.writing import HEADER, load_texts

SPEC = """
metadata: {name: acme}
spec:
  round: v6.1
  submitter: ACME
  systems: {box: {category: edge, status: available}}
  benchmarks:
    photos: {as: NAME, code: resnet50, dataset: {path: data}, model: {path: m.onnx}, engine: {backend: onnxruntime}}
  divisions: {DIVISION: {box: {photos: {Offline: {target_qps: 54}}}}}
"""


def compile_entered(folder: Path, division: str, name: str) -> Desired:
    declared = load_texts(folder, main=HEADER + SPEC.replace("DIVISION", division).replace("NAME", name))
    ruleset = load_ruleset("v6.1")
    check(declared, ruleset)
    return compile_desired(declared, ruleset, Pins())[0]


@pytest.mark.parametrize(("name", "samples"), [("retinanet", 64), ("ssd-large", 64), ("rnnt", 2513)])
def test_open_runs_it_with_its_own_counts_and_the_seeds_of_the_round_and_says_so(
    tmp_path: Path, name: str, samples: int
) -> None:
    desired = compile_entered(tmp_path, "open", name)
    run = desired.detail(Address.parse("Run:open/box/photos/Offline/performance")).values()
    assert run["performance_sample_count"] == samples
    assert run["qsl_rng_seed"] == load_ruleset("v6.1").seeds()["qsl_rng_seed"]
    (note,) = desired.notes
    assert note.startswith(f"open/photos: round v6.1 has no {name};")


def test_a_benchmark_of_the_round_needs_no_word(tmp_path: Path) -> None:
    assert compile_entered(tmp_path, "open", "resnet").notes == ()


@pytest.mark.parametrize(
    ("division", "name", "message", "fix"),
    [
        ("closed", "retinanet", "round v6.1 has no benchmark 'retinanet' any more", "move it to the open division"),
        ("closed", "ssd-large", "round v6.1 has no benchmark 'ssd-large' any more", "move it to the open division"),
        ("open", "retinanett", "round v6.1 has no benchmark 'retinanett'", "did you mean retinanet?"),
    ],
)
def test_closed_and_unknown_names_are_refused(tmp_path: Path, division: str, name: str, message: str, fix: str) -> None:
    with pytest.raises(SpecError) as caught:
        compile_entered(tmp_path, division, name)
    (problem,) = caught.value.problems
    assert problem.message == message
    assert problem.fix.startswith(fix)


TWICE = SPEC.replace(
    "  divisions:",
    "    resnet50: {dataset: {path: data}, model: {path: m.onnx}, engine: {backend: onnxruntime}}\n  divisions:",
).replace("{photos: {Offline: {target_qps: 54}}}", "{photos: {Offline: {}}, resnet50: {Offline: {}}}")


def test_two_benchmarks_of_closed_may_not_be_entered_as_one(tmp_path: Path) -> None:
    text = HEADER + TWICE.replace("NAME", "resnet")
    check(load_texts(tmp_path, main=text.replace("DIVISION", "open")), load_ruleset("v6.1"))
    with pytest.raises(SpecError) as caught:
        check(load_texts(tmp_path, main=text.replace("DIVISION", "closed")), load_ruleset("v6.1"))
    (problem,) = caught.value.problems
    message = "closed/box/resnet50/Offline and closed/box/photos/Offline are both entered as resnet"
    assert problem.message == message
    assert "open division" in problem.fix

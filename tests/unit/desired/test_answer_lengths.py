"""How long answers are is the round's to say, in how many steps images are made the benchmark's, and no query may be
answered with what another one computed, where the benchmark's accuracy binds."""

from __future__ import annotations

import pytest

from reconciler.desired.checks import check
from reconciler.errors import SpecError
from reconciler.rules.rounds import load_ruleset
from tests.unit.spec import writing

SPEC = """\
apiVersion: mlperf-reconciler/v1
kind: Submission
metadata: {name: acme}
spec:
  round: v6.1
  submitter: ACME
  systems: {box: {category: datacenter, status: available}}
  benchmarks:
    digits:
      as: llama3.1-8b
      engine: {backend: openai}
      run: {options: {url: "http://127.0.0.1:8000", model: llama, BOUND}}
  divisions: {DIVISION: {box: {digits: {Offline: {target_qps: 1}}}}}
"""


def judge(
    bound: str, division: str, *, round_name: str = "v6.1", benchmark: str = "llama3.1-8b", spec: str = SPEC
) -> None:
    text = spec.replace("BOUND", bound).replace("DIVISION", division)
    text = text.replace("v6.1", round_name).replace("llama3.1-8b", benchmark)
    check(writing.declare(text), load_ruleset(round_name))


@pytest.mark.parametrize("bound", ["max_new_tokens: 16", "min_new_tokens: 2"])
def test_other_bounds_are_refused_in_the_closed_division(bound: str) -> None:
    with pytest.raises(SpecError) as found:
        judge(bound, "closed")
    (problem,) = found.value.problems
    name, _, value = bound.partition(": ")
    assert problem.message.startswith(f"{name} is {value}; round v6.1 rules ")
    assert problem.line == 12


@pytest.mark.parametrize(
    ("bound", "division"),
    [("max_new_tokens: 128", "closed"), ("max_new_tokens: 0", "closed"), ("max_new_tokens: 16", "open")],
)
def test_the_rounds_own_and_those_of_the_open_division_are_taken(bound: str, division: str) -> None:
    judge(bound, division)


@pytest.mark.parametrize(
    ("round_name", "benchmark", "bound", "ruled"),
    [
        ("v5.0", "gptj-99.9", "max_new_tokens: 64", "128"),
        ("v5.0", "gptj-99", "min_new_tokens: 1", "30"),
        ("v4.1", "mixtral-8x7b", "max_new_tokens: 512", "1024"),
        ("v5.0", "mixtral-8x7b", "min_new_tokens: 1", "2"),
        ("v6.1", "whisper", "max_new_tokens: 100", "200"),
    ],
)
def test_lengths_are_those_of_the_round(round_name: str, benchmark: str, bound: str, ruled: str) -> None:
    with pytest.raises(SpecError) as found:
        judge(bound, "closed", round_name=round_name, benchmark=benchmark)
    said = f"{bound.replace(':', ' is')}; round {round_name} rules {ruled}"
    assert said in [problem.message for problem in found.value.problems]
    judge(f"{bound.partition(':')[0]}: {ruled}", "closed", round_name=round_name, benchmark=benchmark)


def test_lengths_are_free_where_the_round_rules_none() -> None:
    for bound in ("max_new_tokens: 64", "min_new_tokens: 2"):
        judge(bound, "closed", benchmark="qwen3-vl-235b-a22b")


@pytest.mark.parametrize("backend", ["openai", "vllm"])
def test_queries_share_nothing_in_the_closed_division(backend: str) -> None:
    asked = "BOUND" if backend == "openai" else 'url: "http://127.0.0.1:8000", model: llama, BOUND'
    text = SPEC.replace("openai", backend)
    text = text if backend == "openai" else text.replace(asked, "BOUND")
    for division, bound in (("open", "true"), ("closed", "false")):
        judge(f"prefix_caching: {bound}", division, spec=text)
    with pytest.raises(SpecError) as found:
        judge("prefix_caching: true", "closed", spec=text)
    said = "prefix_caching lets queries share what was computed; in the closed division none may"
    assert [problem.message for problem in found.value.problems] == [said]


IMAGES = """\
apiVersion: mlperf-reconciler/v1
kind: Submission
metadata: {name: acme}
spec:
  round: v6.1
  submitter: ACME
  systems: {box: {category: edge, status: available}}
  benchmarks: {sdxl: {engine: {backend: diffusers, options: {steps: STEPS}}}}
  divisions: {DIVISION: {box: {sdxl: {Offline: {target_qps: 1}}}}}
"""


def judge_steps(steps: int, division: str) -> None:
    text = IMAGES.replace("STEPS", str(steps)).replace("DIVISION", division)
    check(writing.declare(text), load_ruleset("v6.1"))


def test_fewer_steps_are_refused_in_the_closed_division_alone() -> None:
    with pytest.raises(SpecError) as found:
        judge_steps(4, "closed")
    assert "steps is 4; in the closed division they are the benchmark's" in [p.message for p in found.value.problems]
    judge_steps(4, "open")
    judge_steps(0, "closed")

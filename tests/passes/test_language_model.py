"""A generated language model in a whole pass, with few prompts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from reconciler.reconcile.planning import PlanResult
from reconciler.resource.kinds import Kind
from tests.passes.repository import Repository, unfinished
from tests.shared import make_once, need
from tests.unit.harness.generated import generate

need("mlperf_loadgen", "openvino_genai", "tokenizers", "rouge_score")
SPEC, TOP = "specs/llm.yaml", "open/this-machine/llama3.1-8b"
KEPT = Path(__file__).with_name("generated_model.yaml")
SCENARIOS = ("Offline", "Server", "Interactive")
PROMPTS = 32


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    def make(folder: Path) -> Repository:
        repository = Repository(folder / "repository")
        repository.write(SPEC, KEPT.read_text(encoding="utf-8"))
        made = generate(tmp_path_factory, "llama3_1_8b", PROMPTS)
        for part in ("data", "models"):
            shutil.copytree(made / part, repository.root / "generated" / part)
        return repository

    return make_once(tmp_path_factory, "llm", make)


def look(repository: Repository, *select: str) -> PlanResult:
    return repository.look(specs=(SPEC,), select=select)


def test_plan_holds_every_part_of_every_scenario(repository: Repository) -> None:
    addresses = {str(step.change.address) for step in look(repository).plan.steps}
    for scenario in SCENARIOS:
        for part in ("Run:{}/accuracy", "Run:{}/performance", "Score:{}", "Result:{}"):
            assert part.format(f"{TOP}/{scenario}") in addresses


def test_whole_pass_answers_every_prompt(repository: Repository, tmp_path: Path) -> None:
    """Whether latencies are met is the machine's affair; that all is there, the code's."""
    repository = repository.copy(tmp_path / "copy")
    assert unfinished(repository.reconcile(specs=(SPEC,), busy=True)) == []
    records = {str(record.address): record for record in repository.records().values()}
    for scenario in SCENARIOS:
        for mode in ("accuracy", "performance"):
            values = records[f"Run:{TOP}/{scenario}/{mode}"].values
            assert values["tokens"]["samples"] == PROMPTS
            assert 8 <= values["tokens"]["shortest"] <= values["tokens"]["longest"] <= 16
        metrics = records[f"Score:{TOP}/{scenario}"].values["metrics"]
        assert (metrics["gen_num"], metrics["rouge1"]) == (PROMPTS, 100.0)
    assert records[f"Run:{TOP}/Offline/performance"].values["validity"] == "VALID"
    assert {step.change.address.kind for step in look(repository).plan.steps} <= {Kind.RUN}, "INVALID ones at most"

"""Passes over a tiny network behind a real engine: prompts, the tokens that it must answer with, and the spec."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from reconciler.execute.outcome import Outcome, Status
from tests.passes.repository import Repository, make_repository

BENCHMARK = '''\
"""Prompts of different lengths, and what a network answers to them (answers.json, written next to this file)."""
import json
from pathlib import Path

import numpy as np

from harness.benchmarks.language.prompt_sets import load_prompts, write_prompts

TOKENS = True
GENERATION = {"min_new_tokens": 3, "max_new_tokens": 12}
KNOWN = json.loads((Path(__file__).parent / "answers.json").read_text())


def build_dataset(source, settings, output, counter):
    write_prompts(output, KNOWN["prompts"])
    (output / "answers.json").write_text(json.dumps(KNOWN["answers"]))


load_samples = load_prompts


def score(log, dataset, output):
    answers = json.loads((dataset / "answers.json").read_text())
    right = sum(
        np.frombuffer(data, np.int32).tolist() == answers[index] for index, data in zip(log.indices.tolist(), log.data)
    )
    lines = {f"rouge{kind}": 100.0 * right / len(log.data) for kind in ("1", "2", "L", "Lsum")}
    (output / "accuracy.txt").write_text(repr({**lines, "gen_len": 7 * right, "gen_num": len(log.data)}) + "\\n")
    return {"right": right}
'''


def describe_served(name: str, backend: str, prompts: int, *, code: str = "answers", precision: str = "fp32") -> str:
    """Return the beginning of a benchmark in a spec, whose ``run`` and ``harness`` may follow."""
    return f"""\
    {name}:
      as: llama3.1-8b
      code: benchmarks/{code}.py
      model: {{path: checkpoint, retraining: "No", starting_weights_filename: none, weight_transformations: none}}
      engine: {{backend: {backend}, precision: {precision}}}
      measurements: {{input_data_types: int32}}
      min_duration: 0
      performance_sample_count: {prompts}
      accuracy_sample_count: {prompts}
"""


def make_asking(
    root: Path, prompts: Sequence[list[int]], answers: Sequence[list[int]], benchmarks: str, cells: str
) -> Repository:
    """The benchmark asks ``prompts`` and scores 100 where each is answered as ``answers`` say."""
    repository = make_repository(root)
    repository.write("benchmarks/answers.py", BENCHMARK)
    repository.write("benchmarks/answers.json", json.dumps({"prompts": prompts, "answers": answers}))
    head, _, rest = (root / "specs/spec.yaml").read_text(encoding="utf-8").partition("  benchmarks:\n")
    assert rest
    repository.write(
        "specs/spec.yaml", f"{head}  benchmarks:\n{benchmarks}  divisions:\n    open:\n      box:\n{cells}"
    )
    return repository


def unhappy(outcomes: list[Outcome] | tuple[Outcome, ...]) -> list[str]:
    return [f"{o.step.change.address}: {o.message} {o.log}" for o in outcomes if o.status is not Status.DONE]

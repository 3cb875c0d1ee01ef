"""Answers found and judged against the official scripts' own functions, which are taken out of their files: the whole
scripts need libraries that are not installed here (``python -m tests.benchmarks.reference_language`` runs those).

``INFERENCE_CHECKOUT`` names a checkout of mlcommons/inference.
"""

from __future__ import annotations

import ast
import os
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tokenizers")

from harness.benchmarks.language.scoring import DEEPSEEK_JUDGES, GPT_OSS_JUDGES, AnswerJudge, choose_judge

COUNT = 4000
PIECES = (
    *("A", "b", "C", "d", "E", "j", "J.", "K", " ", "  ", "\n", r"\n", r"\'", "(", ")", "**", "**B**", "*", ":"),
    *("=", ".", "Answer", "ANSWER:", "answer ", "FINAL ANSWER", "final  answer", "the", "not", "['", '"]', "7", "42"),
    *("1000", "007", r"\boxed{", r"\boxed{12}", r"\boxed{ 3 }", "}", "Answer: 5", "Answer: 6.5", "answer:8 "),
    *("<|channel|>analysis<|message|>", "<|channel|>final<|message|>", "<|channel|>final 12<|message|>"),
    *("<|return|>", "<|end|>"),
)
SETS = ("gpqa_diamond", "mmlu_pro", "AIME_2024", "aime25")


@pytest.fixture(scope="session", params=["deepseek-r1", "gpt-oss-120b"])
def official(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """The benchmark, and what is defined in its script but for what needs a library."""
    named = os.environ.get("INFERENCE_CHECKOUT")
    if not named:
        pytest.skip("INFERENCE_CHECKOUT names no checkout of mlcommons/inference")
    path = Path(named) / "language" / request.param / "eval_accuracy.py"
    if not path.is_file():
        pytest.skip(f"{path} is not there: another round's checkout")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kept = [node for node in tree.body if is_plain(node)]
    missing = SimpleNamespace(isna=lambda value: value is None or value != value)
    found: dict[str, Any] = {**vars(typing), "re": re, "pd": missing}
    exec(compile(ast.Module(kept, []), str(path), "exec"), found)
    return str(request.param), found


def is_plain(node: ast.stmt) -> bool:
    """A function of texts alone, or the table of them."""
    if isinstance(node, ast.FunctionDef):
        return node.name.startswith(
            ("parse_", "validate_text", "validate_dataset_n", "extract_", "strip_", "evaluate_", "get_")
        ) and ("worker" not in node.name and not node.decorator_list)
    return isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "DATASET_EVALUATORS"


def draw_texts() -> Iterator[tuple[str, str, object]]:
    """Set, answer, and what is right."""
    rng = np.random.default_rng(11)
    for _ in range(COUNT):
        text = "".join(rng.choice(PIECES, int(rng.integers(0, 14))))
        wanted = rng.choice(["A", "b", "C", "D", "E", "J", "7", "12", "3", "042"])
        yield str(rng.choice(SETS)), text, str(wanted)


def test_answers_are_found_and_judged_as_by_the_official_script(official: tuple[str, dict[str, Any]]) -> None:
    name, script = official
    judges = {"deepseek-r1": DEEPSEEK_JUDGES, "gpt-oss-120b": GPT_OSS_JUDGES}[name]
    right = found = 0
    for asked, text, wanted in draw_texts():
        theirs = script["get_evaluator"](asked)
        judge: AnswerJudge = choose_judge(judges, asked)
        answer = theirs["parse"](text)
        assert judge.find(text.strip()) == answer, (asked, text)
        is_right = answer is not None and theirs["evaluate"](answer, wanted)
        assert judge.is_right(text, wanted) is is_right, (asked, text, wanted)
        found, right = found + (answer is not None), right + is_right
    assert found > COUNT // 10
    assert right > COUNT // 100

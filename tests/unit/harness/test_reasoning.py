"""Where the answer to a question is found in a text, and whether it is right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tokenizers")
pytest.importorskip("openvino")
pytest.importorskip("mlperf_loadgen")

from harness.benchmarks import load_benchmark
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.language import scoring
from harness.benchmarks.language.scoring import (
    DEEPSEEK_JUDGES,
    choose_judge,
    find_final_letter,
    find_last_letter,
    find_whole_number,
)
from harness.contract import Benchmark, Counter
from harness.run.tokens import PROMPTS

GPT_OSS = Benchmark(name="gpt_oss_120b")
REHEARSED = (GPT_OSS.name, 4)
FINAL = "<|channel|>analysis<|message|>Answer: D, no: B<|end|><|channel|>final<|message|>"


@pytest.mark.parametrize(
    ("text", "last", "letter"),
    [
        ("so I say ANSWER: C.", "D", "C"),
        ("Answer (a) at first; final answer = b", "D", "B"),
        ("answer: certainly", "D", None),
        ("the answer is C", "D", None),
        ("either e or J", "J", "J"),
        ("['ANSWER: A']", "D", "A"),
        (r"ANSWER: C\nand no more", "D", "C"),
        ("", "J", None),
    ],
)
def test_deepseek_answers_behind_the_last_answer(text: str, last: str, letter: str | None) -> None:
    assert find_last_letter(text, last) == letter


@pytest.mark.parametrize(
    ("text", "last", "letter"),
    [
        (f"{FINAL}**B** it is<|return|>", "D", "B"),
        (f"{FINAL}I take Answer: C, as A fails<|return|>", "D", "C"),
        (f"{FINAL}no letter<|return|>", "D", "D"),
        ("<|channel|>final 12<|message|>(c)", "D", "C"),
        ("bad", "D", None),
        ("perhaps H or I", "J", "I"),
    ],
)
def test_gpt_oss_answers_in_its_final_message(text: str, last: str, letter: str | None) -> None:
    assert find_final_letter(text, last) == letter


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (r"first \boxed{12}, then \boxed{ 073 }; Answer: 5", 73),
        ("answer: 5 and Answer: 6", 6),
        ("Answer: 6.5", None),
        (r"\boxed{1000}", None),
        ("Answer: " + "9" * 5000, None),
        ("six", None),
    ],
)
def test_a_whole_number_is_in_the_last_box(text: str, number: int | None) -> None:
    assert find_whole_number(text) == number


@pytest.mark.parametrize(
    ("name", "text", "wanted", "right"),
    [
        ("AIME_2024", "Answer: 070", "70", True),
        ("aime1983", "Answer: 70", 70.0, True),
        ("aime1983", "Answer: 70", "seventy", False),
        ("aime1983", "Answer: 70", float("nan"), False),
        ("mmlu_pro", "  J  ", "j", True),
        ("gpqa", "ANSWER: B", "C", False),
        ("gpqa", "I do not know", "C", False),
    ],
)
def test_an_answer_is_judged_as_its_set_is(name: str, text: str, wanted: object, right: bool) -> None:
    assert choose_judge(DEEPSEEK_JUDGES, name).is_right(text, wanted) is right


def build(source: Path, output: Path) -> Path:
    output.mkdir()
    load_benchmark(GPT_OSS).build_dataset(source, {}, output, Counter(output.with_name("counter")))
    return output


def test_a_file_has_the_questions_of_test07_for_both(made: Path, tmp_path: Path) -> None:
    code = load_benchmark(GPT_OSS)
    dataset = build(made / "data/acc/acc_eval_compliance_gpqa.pkl", tmp_path / "dataset")
    assert len(code.load_samples(dataset)[PROMPTS]) == len(code.load_performance_samples(dataset)[PROMPTS]) == 990


def test_repeated_questions_count_as_one(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = build(made / "data", tmp_path / "dataset")
    references = {"dataset": ["aime25", "aime25", "gpqa_diamond", "mmlu"], "ground_truth": ["7", "7", "A", "B"]}
    texts = ["Answer: 7", "Answer: 8", "C", "B"]
    monkeypatch.setattr(scoring, "load_references", lambda _: references)
    monkeypatch.setattr(scoring, "read_texts", lambda *_, **__: texts)
    log = AnswerLog(np.arange(4, dtype=np.intp), (b"\0" * 8,) * 4, 0, 0)
    found = load_benchmark(GPT_OSS).score(log, dataset, tmp_path)
    points, most = 1 / 8 + 1, 2 / 8 + 1 / 5 + 1
    assert found == {"exact_match": round(100 * points / most, 3), "tokens_per_sample": 2.0}
    assert (tmp_path / "accuracy.txt").read_text() == "'exact_match': 77.586\n{'tokens_per_sample': 2.0}\n"

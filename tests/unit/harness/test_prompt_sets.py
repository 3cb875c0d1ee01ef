"""Prompts as they are published: looked at as a whole, with the file and the fix named, before anything is written."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tokenizers")
pytest.importorskip("openvino")

from tokenizers import Tokenizer

from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.language.prompt_sets import TOKENIZER, build_prompt_set, load_prompts, load_references
from harness.benchmarks.language.published import BENCHMARKS
from harness.benchmarks.sources import REHEARSAL
from harness.contract import Counter
from harness.errors import HarnessError
from harness.run.tokens import PROMPTS
from tests.shared import need

need("rouge_score")  # whose import brings SciPy along
COUNT = 8
REHEARSED = ("llama3_1_8b", COUNT)
LLAMA = BENCHMARKS["llama3_1_8b"]
ROWS = "cnn_eval.json"


def build(source: Path, **settings: object) -> Path:
    output = (source.parent if source.is_dir() else source.parent.parent) / "output"
    output.mkdir()
    LLAMA.build_dataset(source, settings, output, Counter(output.with_name("counter")))
    return output


def test_prompts_are_the_published_token_ids_and_references_their_texts(data: Path) -> None:
    rows = json.loads((data / ROWS).read_text())
    output = build(data)
    assert [prompt.tolist() for prompt in load_prompts(output)[PROMPTS]] == [row["tok_input"] for row in rows]
    assert load_references(output) == {"output": [row["output"] for row in rows]}


def test_another_number_of_rows_than_published_is_refused_unless_it_is_said(data: Path) -> None:
    (data / REHEARSAL).unlink()
    tokenizer = Tokenizer.from_file(str(data / TOKENIZER))
    published = replace(LLAMA.published, vocabulary=tokenizer.get_vocab_size())
    (data.parent / "output").mkdir()
    build = partial(build_prompt_set, published, data, output=data.parent / "output")
    with pytest.raises(HarnessError, match=r"cnn_eval.json has 8 rows, but the published set has 13368"):
        build(settings={}, counter=Counter(data.parent / "counter"))
    build(settings={"unpublished": True}, counter=Counter(data.parent / "counter"))
    assert len(load_prompts(data.parent / "output")[PROMPTS]) == COUNT


def answer(output: Path, answers: list[list[int]]) -> AnswerLog:
    data = tuple(np.array(tokens, np.int32).tobytes() for tokens in answers)
    return AnswerLog(np.arange(len(answers), dtype=np.intp), data, 0, 0)


def test_the_references_themselves_score_highest_and_others_less(data: Path) -> None:
    output = build(data)
    tokenizer = Tokenizer.from_file(str(output / TOKENIZER))
    wanted = load_references(output)["output"]
    right = [tokenizer.encode(text).ids for text in wanted]
    scores = LLAMA.score(answer(output, right), output, output)
    assert scores["rouge1"] == scores["rougeLsum"] == 100.0
    assert (scores["gen_num"], scores["gen_len"]) == (COUNT, sum(len(text.strip()) for text in wanted))
    assert "'rouge1': '100.0', " in (output / "accuracy.txt").read_text()
    half = LLAMA.score(answer(output, [*right[: COUNT // 2], *([[5]] * (COUNT // 2))]), output, output)
    assert 40 < half["rouge1"] < 60

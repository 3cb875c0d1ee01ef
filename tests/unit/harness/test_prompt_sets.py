"""Prompts as they are published: looked at as a whole, with the file and the fix named, before anything is written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tokenizers")
pytest.importorskip("openvino")

from tokenizers import Tokenizer

from harness.benchmarks import llama3_1_8b
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.language.prompt_sets import build_prompt_set, load_references
from harness.benchmarks.language.prompts import load_prompts
from harness.benchmarks.language.texts import SENTENCES, TOKENIZER
from harness.benchmarks.llama3_1_8b.rehearsal import write_rehearsal
from harness.benchmarks.sources import REHEARSAL
from harness.contract import Counter
from harness.errors import HarnessError
from harness.run.tokens import PROMPTS
from tests.shared import need
from tests.unit.harness.generated import generate

need("rouge_score")  # whose import brings SciPy along
COUNT = 8
ROWS = "cnn_eval.json"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory, "llama3.1-8b", write_rehearsal, COUNT)


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "data", tmp_path / "data"))


def build(source: Path, **settings: object) -> Path:
    output = (source.parent if source.is_dir() else source.parent.parent) / "output"
    output.mkdir()
    llama3_1_8b.build_dataset(source, settings, output, Counter(output.with_name("counter")))
    return output


def edit(data: Path, change: Callable[[Any], None]) -> None:
    rows = json.loads((data / ROWS).read_text())
    change(rows)
    (data / ROWS).write_text(json.dumps(rows))


def test_prompts_are_the_published_token_ids_and_references_their_texts(data: Path) -> None:
    rows = json.loads((data / ROWS).read_text())
    output = build(data)
    assert [prompt.tolist() for prompt in load_prompts(output)[PROMPTS]] == [row["tok_input"] for row in rows]
    assert load_references(output) == {"output": [row["output"] for row in rows]}


def test_the_dataset_may_be_named_by_its_file_and_cut_to_its_first_rows(data: Path) -> None:
    rows = json.loads((data / ROWS).read_text())
    output = build(data / ROWS, count=3)
    assert len(load_prompts(output)[PROMPTS]) == 3
    assert load_references(output)["output"] == [row["output"] for row in rows[:3]]


def test_more_rows_than_there_are_cannot_be_asked_for(data: Path) -> None:
    rows = json.loads((data / ROWS).read_text())
    with pytest.raises(HarnessError, match=f"count asks for {len(rows) + 1} samples, and there are {len(rows)}"):
        build(data, count=len(rows) + 1)


def turn_around(rows: Any) -> None:
    """As pandas writes a frame by default: columns of values by row."""
    columns = {name: {str(number): row[name] for number, row in enumerate(rows)} for name in rows[0]}
    rows[:] = [columns]


def test_rows_may_be_written_by_columns(data: Path) -> None:
    rows = json.loads((data / ROWS).read_text())
    edit(data, turn_around)
    (data / ROWS).write_text(json.dumps(json.loads((data / ROWS).read_text())[0]))
    assert load_references(build(data))["output"] == [row["output"] for row in rows]


def test_the_tokenizer_may_be_where_the_guides_have_the_checkpoint(data: Path) -> None:
    folder = data.parent / "scratch/data/llama3.1-8b"
    folder.parent.mkdir(parents=True)
    data.rename(folder)
    checkpoint = data.parent / "scratch/models/Llama-3.1-8B-Instruct"
    checkpoint.mkdir(parents=True)
    (folder / TOKENIZER).rename(checkpoint / TOKENIZER)
    assert (build(folder) / TOKENIZER).read_bytes() == (checkpoint / TOKENIZER).read_bytes()


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        pytest.param(lambda data: (data / ROWS).unlink(), r"data has no cnn_eval.json", id="no rows"),
        pytest.param(lambda data: (data / TOKENIZER).unlink(), r"tokenizer.json: No such file", id="no tokenizer"),
        pytest.param(
            lambda data: (data / TOKENIZER).write_text("{"), r"tokenizer.json is cut off", id="half tokenizer"
        ),
        pytest.param(
            lambda data: (data / "nltk_data" / SENTENCES / "collocations.tab").unlink(),
            r"punkt_tab/english lacks .*collocations.tab",
            id="no sentences",
        ),
        pytest.param(
            lambda data: (data / ROWS).write_bytes((data / ROWS).read_bytes()[:-40]),
            r"cnn_eval.json is cut off or not JSON",
            id="truncated",
        ),
        pytest.param(
            lambda data: edit(data, lambda rows: [row.pop("tok_input") for row in rows]),
            r"cnn_eval.json has no column tok_input; its columns are instruction, input, output",
            id="no tokens",
        ),
        pytest.param(
            lambda data: edit(data, lambda rows: rows[2].pop("output")),
            r"cnn_eval.json: row 2 has not the columns of the first",
            id="a row that lacks one",
        ),
        pytest.param(
            lambda data: edit(data, lambda rows: rows[3].update(tok_input=[5, 128_256])),
            r"cnn_eval.json: row 3 names token 128256, and there are 128256",
            id="token of another vocabulary",
        ),
        pytest.param(
            lambda data: edit(data, lambda rows: rows[3].update(tok_input=[])),
            r"cnn_eval.json: row 3 is not a prompt of token ids",
            id="empty prompt",
        ),
        pytest.param(
            lambda data: edit(data, lambda rows: rows[3].update(tok_input=[1.5])),
            r"cnn_eval.json: row 3 is not a prompt of token ids",
            id="numbers that are no tokens",
        ),
        pytest.param(
            lambda data: edit(data, lambda rows: rows[1].update(output=None)),
            r"cnn_eval.json: row 1 has no text as output, but None",
            id="no reference",
        ),
        pytest.param(
            lambda data: (data / REHEARSAL).unlink(),
            r"tokenizer.json has \d+ tokens, and the model has 128256",
            id="tokenizer of another model",
        ),
    ],
)
def test_damage_is_named_with_its_fix_and_nothing_is_prepared(
    damage: Callable[[Path], None], problem: str, data: Path
) -> None:
    damage(data)
    with pytest.raises(HarnessError, match=problem) as caught:
        build(data)
    assert "llama" in caught.value.fix.lower()
    assert not list((data.parent / "output").iterdir())


def test_another_number_of_rows_than_published_is_refused_unless_it_is_said(data: Path) -> None:
    (data / REHEARSAL).unlink()
    tokenizer = Tokenizer.from_file(str(data / TOKENIZER))
    published = replace(llama3_1_8b.PUBLISHED, vocabulary=tokenizer.get_vocab_size())
    (data.parent / "output").mkdir()
    build = partial(build_prompt_set, published, data, output=data.parent / "output")
    with pytest.raises(HarnessError, match=r"cnn_eval.json has 8 rows, and 13368 are published"):
        build(settings={}, counter=Counter(data.parent / "counter"))
    build(settings={"unpublished": True}, counter=Counter(data.parent / "counter"))
    assert len(load_prompts(data.parent / "output")[PROMPTS]) == COUNT


def test_a_prompt_longer_than_any_published_one_is_refused(data: Path) -> None:
    published = replace(llama3_1_8b.PUBLISHED, longest=4)
    (data.parent / "output").mkdir()
    with pytest.raises(HarnessError, match=r"is a prompt of \d+ tokens, and the longest published one has 4"):
        build_prompt_set(published, data, {}, data.parent / "output", Counter(data.parent / "counter"))


def answer(output: Path, answers: list[list[int]]) -> AnswerLog:
    data = tuple(np.array(tokens, np.int32).tobytes() for tokens in answers)
    return AnswerLog(np.arange(len(answers), dtype=np.intp), data, 0, 0)


def test_the_references_themselves_score_highest_and_others_less(data: Path) -> None:
    output = build(data)
    tokenizer = Tokenizer.from_file(str(output / TOKENIZER))
    wanted = load_references(output)["output"]
    right = [tokenizer.encode(text).ids for text in wanted]
    scores = llama3_1_8b.score(answer(output, right), output, output)
    assert scores["rouge1"] == scores["rougeLsum"] == 100.0
    assert (scores["gen_num"], scores["gen_len"]) == (COUNT, sum(len(text.strip()) for text in wanted))
    assert "'rouge1': '100.0', " in (output / "accuracy.txt").read_text()
    half = llama3_1_8b.score(answer(output, [*right[: COUNT // 2], *([[5]] * (COUNT // 2))]), output, output)
    assert 40 < half["rouge1"] < 60


def test_an_answer_that_is_not_of_whole_tokens_is_named(data: Path) -> None:
    output = build(data)
    log = AnswerLog(np.array([4], np.intp), (b"123",), 0, 0)
    with pytest.raises(HarnessError, match="answer to sample 4 does not hold int32 tokens"):
        llama3_1_8b.score(log, output, output)

"""BERT on SQuAD: what is on disk is checked, passages become windows, and logits become the text of answers."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from harness.benchmarks import bert
from harness.benchmarks.bert import squad
from harness.errors import HarnessError

pytest.importorskip("tokenizers")
pytest.importorskip("onnxruntime")

from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.bert.rehearsal import MODEL
from harness.benchmarks.network_builder import NetworkSession
from tests.unit.harness.generated import build_dataset

COUNT = 32
REHEARSED = ("bert", COUNT)


build = partial(build_dataset, squad)


def test_a_sample_is_marks_question_passage_and_zeros(data: Path) -> None:
    output = build(data, dtype="int32")
    samples, texts = squad.load_samples(output), squad.load_texts(output)
    ids, mask, segments = (samples[name] for name in squad.INPUTS)
    assert {array.dtype for array in samples.values()} == {np.dtype("int32")}
    assert len(ids) == len(texts.windows) > COUNT  # a passage of several windows is among them
    for row, window in enumerate(texts.windows):
        whole = window.asked + window.length + 3
        assert mask[row].tolist() == [1] * whole + [0] * (384 - whole)
        assert segments[row].tolist() == [0] * window.offset + [1] * (window.length + 1) + [0] * (384 - whole)
        assert (ids[row][0], ids[row][window.asked + 1], ids[row][whole - 1]) == (101, 102, 102)


def test_windows_of_a_long_passage_overlap_and_each_token_is_widest_in_one() -> None:
    found = list(squad.cut_windows(0, 20, 700))
    assert [(window.start, window.length) for window in found] == [(0, 361), (128, 361), (256, 361), (384, 316)]
    widest = squad.find_widest(found)
    assert sorted(widest) == list(range(700))
    assert (widest[0], widest[699]) == (0, 3)
    for token, number in widest.items():
        assert found[number].start <= token < found[number].start + found[number].length


def test_the_networks_own_answers_score_perfectly_and_others_do_not(made: Path, data: Path, tmp_path: Path) -> None:
    output = build(data)
    session = NetworkSession(made / "models" / MODEL)
    right = bert.postprocess(session.compute({k: np.array(v) for k, v in squad.load_samples(output).items()}))
    assert score(right, output, tmp_path) == {"exact_match": 100.0, "f1": 100.0}
    assert json.loads((tmp_path / "accuracy.txt").read_text()) == {"exact_match": 100.0, "f1": 100.0}
    assert score(right[:, ::-1], output, tmp_path)["f1"] < 50
    assert score(right[: COUNT // 2], output, tmp_path)["f1"] < 100  # the others were not answered


def score(logits: np.ndarray, dataset: Path, output: Path) -> dict[str, float]:
    data = tuple(np.ascontiguousarray(row).tobytes() for row in logits)
    return dict(bert.score(AnswerLog(np.arange(len(data)), data, 0, 0), dataset, output))


def test_both_forms_of_outputs_are_answers_and_others_are_refused() -> None:
    start, end = np.ones((2, 384), np.float16), np.zeros((2, 384), np.float16)
    both = bert.postprocess([start, end])
    assert (both.shape, both.dtype) == ((2, 384, 2), np.float32)
    assert np.array_equal(bert.postprocess([np.stack([start, end], -1)]), both)
    with pytest.raises(HarnessError, match="not start and end logits"):
        bert.postprocess([np.zeros((2, 100, 2))])


@pytest.mark.parametrize(
    ("answer", "wanted", "f1"),
    [("the Cat!", "cat", 1.0), ("a black cat", "white cat", 0.5), ("dog", "cat", 0.0), ("the", "cat", 0.0)],
)
def test_f1_counts_words_without_signs_and_articles(answer: str, wanted: str, f1: float) -> None:
    assert bert.compute_f1(answer, wanted) == f1

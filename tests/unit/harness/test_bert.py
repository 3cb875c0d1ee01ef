"""BERT on SQuAD: what is on disk is checked, passages become windows, and logits become the text of answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.benchmarks.bert import windows
from harness.contract import Benchmark, Counter, RehearseRequest
from harness.errors import HarnessError

pytest.importorskip("tokenizers")
pytest.importorskip("onnxruntime")

from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.bert import answers, scoring, spans, squad
from harness.benchmarks.bert.rehearsal import MODEL
from harness.benchmarks.made_network import NetworkSession
from harness.benchmarks.sources import REHEARSAL
from harness.verbs.rehearse import execute
from reconciler.storage.documents import parse_yaml_mapping

COUNT = 32


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert") / "made"
    counter = str(folder.with_name("counter"))
    asked = RehearseRequest(benchmark=Benchmark(name="bert"), output=str(folder), counter=counter, count=COUNT)
    assert execute(asked, lambda _: None).done
    return folder


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "data", tmp_path / "data"))


def build(data: Path, **settings: object) -> Path:
    output = data.parent / "output"
    output.mkdir()
    squad.build_dataset(data, settings, output, Counter(data.parent / "counter"))
    return output


def edit(data: Path, change: Any) -> None:
    document = json.loads((data / squad.QUESTIONS).read_text())
    change(document)
    (data / squad.QUESTIONS).write_text(json.dumps(document))


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


def test_generated_questions_have_windows_of_their_own_to_calibrate_with(data: Path) -> None:
    """The official list counts windows that so few questions do not have."""
    output = build(data)
    found, samples = squad.load_calibration(output), squad.load_samples(output)
    assert found.keys() == samples.keys()
    assert np.array_equal(found["input_ids"], samples["input_ids"][:COUNT])
    (output / squad.CALIBRATION).unlink()
    assert squad.load_calibration(output) == {}


def test_windows_of_a_long_passage_overlap_and_each_token_is_widest_in_one() -> None:
    found = list(windows.cut_windows(0, 20, 700))
    assert [(window.start, window.length) for window in found] == [(0, 361), (128, 361), (256, 361), (384, 316)]
    widest = windows.find_widest(found)
    assert sorted(widest) == list(range(700))
    assert (widest[0], widest[699]) == (0, 3)
    for token, number in widest.items():
        assert found[number].start <= token < found[number].start + found[number].length


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        pytest.param(
            lambda data: (data / squad.QUESTIONS).unlink(), "of 1 file 1 is missing: dev-v1.1.json", id="missing"
        ),
        pytest.param(lambda data: (data / squad.VOCABULARY).unlink(), "vocab.txt: No such file", id="no-vocabulary"),
        pytest.param(
            lambda data: (data / squad.QUESTIONS).write_bytes((data / squad.QUESTIONS).read_bytes()[:-90]),
            "dev-v1.1.json is cut off or not JSON",
            id="truncated",
        ),
        pytest.param(lambda data: edit(data, lambda d: d.update(version="v2.0")), "is of version 'v2.0'", id="version"),
        pytest.param(
            lambda data: edit(data, lambda d: d["data"][0]["paragraphs"][0].pop("context")),
            r"data\[0\] has a paragraph that is not whole",
            id="no-context",
        ),
        pytest.param(
            lambda data: (data / REHEARSAL).unlink(),
            "1 has another digest than it should: dev-v1.1.json",
            id="digest",
        ),
        pytest.param(
            lambda data: (data / "SHA256SUMS").write_text(f"{'0' * 64}  {squad.VOCABULARY}\n"),
            "1 has another digest than it should: vocab.txt",
            id="own-digest",
        ),
        pytest.param(
            lambda data: (data / "dev-v1.1 (1).json").write_text("{}"),
            r"of 1 file 1 belongs to nothing: dev-v1\.1 \(1\)\.json",
            id="second-copy",
        ),
        pytest.param(
            lambda data: (data / squad.VOCABULARY).write_text("[PAD]\nword\n"), r"vocab.txt has no \[UNK\]", id="marks"
        ),
    ],
)
def test_a_damaged_file_is_named_with_its_fix_and_nothing_is_prepared(data: Path, damage: Any, problem: str) -> None:
    damage(data)
    with pytest.raises(HarnessError, match=problem) as caught:
        build(data)
    assert "reconcile fetch bert" in caught.value.fix
    assert not list((data.parent / "output").iterdir())


def test_the_digests_are_those_that_fetching_knows() -> None:
    listed = parse_yaml_mapping(Path(squad.__file__).with_name("files.yaml").read_bytes()).values["files"]
    known = {Path(item["path"]).name: item["md5"] for item in listed}
    assert {name: known[name] for name in squad.MD5} == squad.MD5


def test_the_vocabulary_may_be_where_the_guides_have_it(data: Path) -> None:
    place = data.parent / "scratch"
    folder = place / "data" / "squad"
    folder.parent.mkdir(parents=True)
    data.rename(folder)
    (place / "models" / "bert").mkdir(parents=True)
    (folder / squad.VOCABULARY).rename(place / "models" / "bert" / squad.VOCABULARY)
    assert squad.find_vocabulary(folder).resolve() == (place / "models/bert/vocab.txt").resolve()


def test_the_networks_own_answers_score_perfectly_and_others_do_not(made: Path, data: Path, tmp_path: Path) -> None:
    output = build(data)
    session = NetworkSession(made / "models" / MODEL)
    right = answers.postprocess(session.compute({k: np.array(v) for k, v in squad.load_samples(output).items()}))
    assert score(right, output, tmp_path) == {"exact_match": 100.0, "f1": 100.0}
    assert json.loads((tmp_path / "accuracy.txt").read_text()) == {"exact_match": 100.0, "f1": 100.0}
    assert score(right[:, ::-1], output, tmp_path)["f1"] < 50
    assert score(right[: COUNT // 2], output, tmp_path)["f1"] < 100  # the others were not answered


def score(logits: np.ndarray, dataset: Path, output: Path) -> dict[str, float]:
    data = tuple(np.ascontiguousarray(row).tobytes() for row in logits)
    return dict(scoring.score(AnswerLog(np.arange(len(data)), data, 0, 0), dataset, output))


def test_both_forms_of_outputs_are_answers_and_others_are_refused() -> None:
    start, end = np.ones((2, 384), np.float16), np.zeros((2, 384), np.float16)
    both = answers.postprocess([start, end])
    assert (both.shape, both.dtype) == ((2, 384, 2), np.float32)
    assert np.array_equal(answers.postprocess([np.stack([start, end], -1)]), both)
    with pytest.raises(HarnessError, match="not start and end logits"):
        answers.postprocess([np.zeros((2, 100, 2))])


@pytest.mark.parametrize(
    ("answer", "written", "found"),
    [
        ("steve smith", "Steve Smith's", "Steve Smith"),
        ("cafe", "(Café)", "Café"),
        ("missing", "Something else", "Something else"),
    ],
)
def test_an_answer_is_given_as_it_is_written(answer: str, written: str, found: str) -> None:
    assert spans.restore(answer, written, spans.make_splitter()) == found


@pytest.mark.parametrize(
    ("answer", "wanted", "f1"),
    [("the Cat!", "cat", 1.0), ("a black cat", "white cat", 0.5), ("dog", "cat", 0.0), ("the", "cat", 0.0)],
)
def test_f1_counts_words_without_signs_and_articles(answer: str, wanted: str, f1: float) -> None:
    assert scoring.compute_f1(answer, wanted) == f1

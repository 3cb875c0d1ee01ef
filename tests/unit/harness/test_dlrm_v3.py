"""DLRMv3's stream: requests with all that their users saw before, in the order of time; damage is named; the score."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.benchmarks import dlrm_v3
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.dlrm_v3 import histories
from harness.benchmarks.dlrm_v3.generated_stream import Extent, GeneratedStream, write_stream
from harness.benchmarks.sources import REHEARSAL
from harness.errors import HarnessError
from tests.unit.harness.generated import build_dataset

COUNT, CANDIDATES, IN_CATEGORY = 23, 6, 10
EXTENT = Extent(items=128 * IN_CATEGORY, categories=128, candidates=CANDIDATES, seen=2)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dlrm_v3")
    rng = np.random.default_rng(1)
    stream = GeneratedStream(rng, EXTENT, COUNT)
    came = stream.train()
    asking = stream.infer(lambda _user, items: rng.normal(size=len(items)), lambda: None)
    (folder / "data").mkdir()
    write_stream(folder / "data", stream.users, [*came, *asking])
    (folder / "data" / REHEARSAL).write_text("{}")
    return folder


def build(folder: Path) -> Path:
    return build_dataset(histories, folder / "data")


def read_lines(folder: Path) -> list[list[str]]:
    with (folder / "data/sampled_data/0.csv").open(newline="") as stream:
        return list(csv.reader(stream))


def numbers(text: str) -> list[float]:
    return [float(number) for number in text.split(",")] if text else []


def test_a_request_has_all_that_its_user_saw_before_and_what_is_liked_of_its_candidates(folder: Path) -> None:
    samples, lines = histories.load_samples(build(folder)), read_lines(folder)
    assert {name: len(rows) for name, rows in samples.items()} == dict.fromkeys(samples, COUNT)
    weights = {1: 1, 2: 2, 3: 4, 4: 8, 5: 16}
    for number in range(COUNT):
        timestamp, _, user, longest = samples["request"][number].tolist()
        line, now = lines[user], histories.TRAINED + timestamp + 2
        before = [step for step in range(now) if step != histories.TRAINED + 1 and line[4 * step]]
        seen = [int(item) for step in before for item in numbers(line[4 * step + 2])]
        ratings = [rating for step in before for rating in numbers(line[4 * step + 3])]
        assert samples["history"][number].tolist() == seen
        assert samples["actions"][number].tolist() == [weights[int(rating)] for rating in ratings]
        assert samples["candidates"][number].tolist() == numbers(line[4 * now])
        assert samples["likes"][number].tolist() == [rating >= 3.5 for rating in numbers(line[4 * now + 1])]
        assert len(seen) <= longest
    assert max(map(len, samples["history"])) == longest


def test_a_history_that_is_too_long_ends_with_its_oldest_items(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = histories.load_samples(build(folder))["history"][0].tolist()
    shutil.rmtree(folder / "dataset")
    monkeypatch.setattr(histories, "LONGEST", 40)
    cut = histories.load_samples(build(folder))
    assert cut["history"][0].tolist() == whole[:40]
    assert cut["request"][0, 3] == 40


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"1,2,3\r\n")


def change(old: bytes, new: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(path.read_bytes().replace(old, new, 1))


def shift(path: Path) -> None:
    first, rest = path.read_text().split(",", 1)
    path.write_text(f"{first},1{rest}")


def copy_next_to(path: Path) -> None:
    shutil.copy(path, path.with_name("1.csv"))


@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        ("offset.csv", Path.unlink, "offset.csv"),
        ("0.csv", lambda path: path.write_bytes(b""), "0.csv"),
        ("0.csv", copy_next_to, "1.csv"),
        ("0.csv", cut, "0.csv"),
        ("0.csv", lengthen, "0.csv"),
        ("offset.csv", shift, "0.csv"),
        ("offset.csv", change(b",", b",x"), "offset.csv"),
        ("requests_per_ts_offset.csv", change(b",", b" "), "requests_per_ts_offset.csv"),
        ("users_cumsum_per_ts.csv", cut, "users_cumsum_per_ts.csv"),
        ("0.csv", change(b'","', b'";"'), "line 1 "),
        ("0.csv", change(b'","', b'"\r"'), "line 1 "),
        ("0.csv", change(b".", b"x"), "line 1 "),
    ],
)
def test_a_damaged_stream_is_named(folder: Path, name: str, damage: Callable[[Path], None], said: str) -> None:
    damage(folder / "data/sampled_data" / name)
    with pytest.raises(HarnessError) as caught:
        build(folder)
    assert said in caught.value.problem
    assert "`reconcile fetch dlrm-v3`" in caught.value.fix


# What a request asks for, and when


class Rows:
    """Represents a table: a row is its number, twice."""

    rows = EXTENT.items

    def take(self, wanted: Any) -> np.ndarray:
        return np.stack([wanted, wanted], axis=1).astype(np.float16)


def ask(sample: dict[str, Any], predictions: list[float]) -> tuple[Any, np.ndarray]:
    tables: Any = Rows()
    steps = dlrm_v3.answer_request(sample, tables, tables, IN_CATEGORY)
    asked = next(steps)
    with pytest.raises(StopIteration) as ended:
        steps.send([np.array([predictions], np.float32)])
    return asked, ended.value.value


def test_a_history_is_looked_up_and_padded_to_the_longest() -> None:
    sample = {
        "request": np.array([2, 5, 7, 4], np.int32),
        "history": np.array([31, 8], np.int32),
        "actions": np.array([16, 1], np.uint8),
        "candidates": np.array([99, 100, 101], np.int32),
    }
    asked, answer = ask(sample, [0.25, 0.5, 0.75])
    assert asked["history"].tolist() == [[[31, 31], [8, 8], [0, 0], [0, 0]]]
    assert asked["history_categories"].tolist() == [[3, 0, 0, 0]]
    assert asked["actions"].tolist() == [[16, 1, 0, 0]]
    assert asked["length"].tolist() == [2]
    assert asked["user"].tolist() == [[7, 7]]
    assert asked["candidate_categories"].tolist() == [[9, 10, 10]]
    assert {len(rows) for rows in asked.values()} == {1}
    assert answer.tolist() == [2, 5, 0.25, 0.5, 0.75]
    _, reported = ask({**sample, "likes": np.array([1, 0, 1], np.uint8)}, [0.25, 0.5, 0.75])
    assert reported.tolist() == [2, 5, 0.25, 0.5, 0.75, 1, 0, 1, 1, 1, 1, 3]
    assert reported.dtype == np.float32


STAMPS = {"request": np.array([[0, 0], [0, 1], [1, 0], [1, 1], [1, 2]])}


def test_requests_come_in_the_order_of_time_whichever_loadgen_names() -> None:
    once = list(islice(dlrm_v3.list_in_order(STAMPS, 5), 5))
    assert (sorted(once[:2]), sorted(once[2:])) == ([0, 1], [2, 3, 4])
    assert once == list(islice(dlrm_v3.list_in_order(STAMPS, 3), 5))
    twice = list(islice(dlrm_v3.list_in_order(STAMPS, 11), 12))
    assert twice[:4] == [*once[:2], *once[:2]]
    assert twice[4:] == [*once[2:], *once[2:], *once[2:4]]


def test_the_reference_shuffles_the_requests_of_a_timestamp_so() -> None:
    """By random.shuffle with the seed of its main.py."""
    many = {"request": np.stack([np.repeat([0, 1], 8), np.tile(np.arange(8), 2)], axis=1)}
    found = list(islice(dlrm_v3.list_in_order(many, 16), 16))
    assert found[:8] == [1, 4, 5, 6, 3, 7, 2, 0]


# Scores


def answer(at: tuple[int, int], predictions: Any, likes: Any) -> bytes:
    count = len(likes)
    return np.concatenate([at, predictions, likes, np.ones(count), [count]]).astype(np.float32).tobytes()


def score(folder: Path, answers: list[bytes]) -> dict[str, Any]:
    return dict(dlrm_v3.score(AnswerLog(np.arange(len(answers)), tuple(answers), 0, 0), folder, folder))


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    np.save(tmp_path / "requests.npy", np.array([[0, 0, 3, 9], [1, 0, 3, 9]], np.int32))
    np.save(tmp_path / "likes.npy", np.array([[1, 0, 0, 1], [1, 1, 1, 1]], np.uint8))
    return tmp_path


def test_entropy_is_that_of_always_predicting_the_mean_where_nothing_is_known(labelled: Path) -> None:
    answers = [answer((1, 0), [0.75] * 4, [1] * 4), answer((0, 0), [0.75] * 4, [1, 0, 0, 1])]
    found = score(labelled, answers)
    assert found["DLRM_NE"] == pytest.approx(1.0)
    assert found["DLRM_ACC"] == 6 / 8
    assert found["DLRM_AUC"] == 0.5  # no request has a curve
    assert (labelled / "accuracy.txt").read_text().splitlines()[1] == "metric/lifetime_accuracy/rating: 0.75"


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        pytest.param([b"\0" * 8], "an answer has 8 bytes, a request of 4 candidates needs 60", id="size"),
        pytest.param([answer((0, 0), [0.5] * 4, [1, 1, 0, 1])], "does not contain the labels", id="labels"),
        pytest.param([answer((0, 1), [0.5] * 4, [1] * 4)], "request 1 at timestamp 0, which", id="unknown"),
        pytest.param([answer((1, 0), [0.5] * 4, [1] * 4)] * 2, "request 1 is answered twice", id="twice"),
        pytest.param([answer((1, 0), [np.nan] * 4, [1] * 4)], "non-numbers", id="nan"),
    ],
)
def test_an_answer_that_cannot_be_scored_is_refused(labelled: Path, answers: list[bytes], problem: str) -> None:
    with pytest.raises(HarnessError, match=problem):
        score(labelled, answers)

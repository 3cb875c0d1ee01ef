"""The small language model: its text, its training, and OpenVINO GenAI saying what numpy says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.language.pydoc import network
from harness.benchmarks.language.pydoc.network import (
    TransformerShape,
    differentiate,
    draw_parameters,
    train,
)
from harness.contract import Counter
from harness.run.tokens import PROMPTS, Sampling
from tests.unit.harness.recorder import Recorder

SHAPE = TransformerShape(vocabulary=40, width=32, heads=2, layers=2, inner=48, places=32)
LIMIT = 60  # seconds


def continue_greedily(parameters: network.Parameters, tokens: list[int], count: int) -> list[int]:
    """The likeliest next tokens, one after the other: what any engine must say of this network in fp32."""
    found = list(tokens)
    for _ in range(count):
        found.append(int(network._score(parameters, SHAPE, np.array([found], np.int64))[0][-1].argmax()))
    return found[len(tokens) :]


def make_parameters(seed: int = 3) -> network.Parameters:
    rng = np.random.default_rng(seed)
    drawn = {name: value * np.float32(4) for name, value in draw_parameters(SHAPE, rng).items()}
    both = {name: (rng.standard_normal((40, 32)) * 0.15).astype(np.float32) for name in ("tokens", "scores")}
    return drawn | both


def test_gradients_are_those_of_small_steps() -> None:
    rng = np.random.default_rng(1)
    parameters = {name: value.astype(np.float64) for name, value in make_parameters().items()}
    passages = rng.integers(0, 40, (3, 9))
    _, gradients = differentiate(parameters, SHAPE, passages)  # type: ignore[arg-type]
    assert gradients.keys() == parameters.keys()
    for name, value in parameters.items():
        place = tuple(int(rng.integers(0, min(size, 8))) for size in value.shape)
        losses = []
        for step in (1e-5, -1e-5):
            moved = value.copy()
            moved[place] += step
            losses.append(differentiate({**parameters, name: moved}, SHAPE, passages)[0])  # type: ignore[dict-item]
        assert gradients[name][place] == pytest.approx((losses[0] - losses[1]) / 2e-5, rel=1e-3, abs=1e-7), name


def test_training_learns_what_pairs_of_tokens_cannot_say() -> None:
    """Each token is the sum of the two before it, so that one alone says nothing of the next."""
    stream = [1, 1]
    for _ in range(3000):
        stream.append((stream[-1] + stream[-2]) % 5)
    shape = TransformerShape(vocabulary=32, width=32, heads=2, layers=2, inner=32, places=72)
    reported: list[int] = []
    passages = np.array([stream[start : start + 65] for start in range(20)])
    losses = [
        differentiate(train(np.array(stream), shape, seed=1, steps=steps, bump=reported.append), shape, passages)[0]
        for steps in (0, 60)
    ]
    assert sum(reported) == 60
    assert losses[1] < 0.7 * losses[0]


def test_dataset_is_the_same_each_time_and_holds_out_what_it_asks(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    from harness.benchmarks.language import pydoc

    made = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        pydoc.build_dataset(None, {}, folder, Counter(tmp_path / "counter"))
        made.append({path.name: path.read_bytes() for path in sorted(folder.iterdir())})
    assert made[0] == made[1]
    prompts = pydoc.BENCHMARK.load_samples(tmp_path / "one")[PROMPTS]
    assert len(prompts) == pydoc.HELD_OUT
    assert 12 <= min(map(len, prompts)) < max(map(len, prompts)) <= 40
    passages = pydoc.read_passages(seed=1, held_out=20, shortest=300)
    assert not set(passages.learned) & set(passages.held_out)


def test_answers_are_scored_by_what_the_paragraphs_go_on_with(tmp_path: Path) -> None:
    pytest.importorskip("rouge_score")
    pytest.importorskip("tokenizers")
    import json

    from tokenizers import Tokenizer

    from harness.benchmarks.language import pydoc

    pydoc.build_dataset(None, {}, tmp_path, Counter(tmp_path / "counter"))
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    targets = json.loads((tmp_path / "targets.json").read_text())
    right = [np.array(tokenizer.encode(text).ids, np.int32).tobytes() for text in targets]
    half = [data if row % 2 else np.array([0], np.int32).tobytes() for row, data in enumerate(right)]
    for data, percent in ((right, 100.0), (half, 50.0)):
        metrics = pydoc.score(AnswerLog(np.arange(len(data)), tuple(data), 0, 0), tmp_path, tmp_path)
        assert [metrics[kind] for kind in ("rouge1", "rougeL", "rougeLsum")] == pytest.approx([percent] * 3, abs=0.6)
    assert metrics["gen_num"] == pydoc.HELD_OUT
    assert f"'rouge1': {metrics['rouge1']}" in (tmp_path / "accuracy.txt").read_text()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("openvino_genai")
    from harness.benchmarks.language.pydoc.network import write_model

    folder = tmp_path_factory.mktemp("model")
    write_model(make_parameters(), SHAPE, folder, end=0)
    return folder


@pytest.mark.parametrize(("streaming", "options"), [(True, {}), (False, {}), (False, {"sequences": 2})])
def test_openvino_genai_says_what_numpy_says(streaming: bool, options: dict[str, Any], model: Path) -> None:
    """Also where most prompts wait for others to end."""
    from harness.backends import openvino_genai

    parameters, recorder = make_parameters(), Recorder(LIMIT)
    prompts = [np.arange(1, 3 + row, dtype=np.int32) * 3 % 40 for row in range(6)]
    wanted = {}
    for row, prompt in enumerate(prompts):
        tokens = continue_greedily(parameters, prompt.tolist(), 8)
        end = tokens.index(5) + 1 if 5 in tokens else len(tokens)
        wanted[row] = tokens[:end]
    plan: dict[str, Any] = {"scenario": "Server", "threads": 1, "sampling": Sampling(max_new_tokens=8, stop=(5,))}
    generator = openvino_genai.load(recorder.make_plan(**plan, model=model, streaming=streaming, options=options))
    generator.place(prompts)
    for row in range(len(prompts)):
        generator.submit(row, row)
    found = recorder.wait(len(prompts))
    generator.close()
    assert {row: [token for token in tokens if token != 5] for row, tokens in found.items()} == {
        row: [token for token in tokens if token != 5] for row, tokens in wanted.items()
    }
    assert recorder.firsts == ({row: tokens[:1] for row, tokens in found.items()} if streaming else {})

"""Small generated networks: OpenVINO GenAI answers with what they compute, one token after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("openvino_genai")

import openvino as ov

from harness.backends import openvino_genai
from harness.benchmarks.language.decoder_graph import MODEL, DecoderShape
from harness.benchmarks.language.rehearsing import OwnAnswers, write_decoder
from harness.run.tokens import GenerationPlan, Sampling, StopSequence
from tests.unit.harness.recorder import Recorder

LIMIT, END, WORDS, MOST = 60, 0, 256, 12


def make_plan(recorder: Recorder, model: Path, sampling: Sampling, **more: Any) -> GenerationPlan:
    return recorder.make_plan(model=model, sampling=sampling, **more)


def answer_greedily(folder: Path, prompt: list[int], *, least: int = 1, most: int = MOST) -> list[int]:
    """The likeliest next token of the whole text so far, up to the end: what any engine must say in fp32."""
    hints = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
    request = ov.Core().compile_model(str(folder / MODEL), "CPU", hints).create_infer_request()
    found: list[int] = []
    while len(found) < most and (not found or found[-1] != END):
        text = np.array([[*prompt, *found]], np.int64)
        request.reset_state()
        places = {"attention_mask": np.ones_like(text), "position_ids": np.arange(text.size)[None]}
        scores = request.infer({"input_ids": text, **places, "beam_idx": np.zeros(1, np.int32)})[0][0, -1].copy()
        if len(found) < least:
            scores[END] = -np.inf
        found.append(int(scores.argmax()))
    return found


def ask(model: Path, sampling: Sampling, prompts: list[list[int]], **more: Any) -> tuple[list[list[int]], Recorder]:
    """The answers of the backend, and what else it reported."""
    recorder = Recorder(LIMIT)
    generator = openvino_genai.load(make_plan(recorder, model, sampling, **more))
    generator.place([np.array(prompt, np.int32) for prompt in prompts])
    for row in range(len(prompts)):
        generator.submit(row, row)
    found = recorder.wait(len(prompts))
    generator.close()
    return [found[row] for row in range(len(prompts))], recorder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    write_decoder(DecoderShape(vocabulary=WORDS), folder, np.random.default_rng(7), end=END)
    return folder


@pytest.fixture(scope="module")
def prompts() -> list[list[int]]:
    rng = np.random.default_rng(8)
    return [rng.integers(1, WORDS, size).tolist() for size in (1, 3, 4, 9, 10, 27, 60)]


@pytest.mark.parametrize(
    "more", [{}, {"scenario": "Server", "streaming": True}, {"scenario": "Server", "options": {"sequences": 2}}]
)
def test_openvino_genai_answers_as_the_network_does(more: Any, model: Path, prompts: list[list[int]]) -> None:
    """Also where most prompts wait for others to end."""
    wanted = [answer_greedily(model, prompt) for prompt in prompts]
    found, recorder = ask(model, Sampling(min_new_tokens=1, max_new_tokens=MOST), prompts, **more)
    assert found == wanted
    assert any(len(answer) < MOST for answer in wanted)
    assert all(answer[-1] == END for answer in wanted if len(answer) < MOST)
    assert recorder.firsts == ({row: tokens[:1] for row, tokens in enumerate(wanted)} if "streaming" in more else {})


def test_answers_of_a_search_are_those_of_one_prompt_at_a_time(model: Path, prompts: list[list[int]]) -> None:
    own = OwnAnswers(model, least=0, most=MOST, beams=4)
    found, _ = ask(model, Sampling(min_new_tokens=1, max_new_tokens=MOST, beams=4), prompts)
    assert found == [own.answer(prompt) for prompt in prompts]
    assert found != [answer_greedily(model, prompt) for prompt in prompts]


@pytest.mark.parametrize("least", [0, 1, 3, 8])
def test_an_answer_does_not_end_before_it_may(least: int, tmp_path: Path) -> None:
    write_decoder(DecoderShape(vocabulary=WORDS, ends=50.0), tmp_path, np.random.default_rng(7), end=END)
    answer = OwnAnswers(tmp_path, least=least, most=8).answer([5, 6])
    assert answer == answer_greedily(tmp_path, [5, 6], least=least, most=8)
    assert len(answer) == min(least + 1, 8)


def test_an_answer_has_nothing_behind_its_stop_sequence(model: Path, prompts: list[list[int]]) -> None:
    prompt, whole = next((each, answer) for each in prompts if len(answer := answer_greedily(model, each)) > 4)
    recorder = Recorder(LIMIT)
    sampling = Sampling(max_new_tokens=MOST, stop_sequences=(StopSequence("", tuple(whole[2:4])),))
    generator = openvino_genai.load(make_plan(recorder, model, sampling))
    generator.place([np.array(prompt), np.array(prompt)], [0, 1])
    for row in range(2):
        generator.submit(row, row)
    found = recorder.wait(2)
    generator.close()
    assert (found[0], found[1]) == (whole, whole[:4])


def test_what_is_drawn_of_sharp_scores_is_the_likeliest(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    write_decoder(DecoderShape(vocabulary=WORDS, sharpness=1e4), tmp_path, rng, end=END)
    prompt = rng.integers(1, WORDS, 9).tolist()
    found, _ = ask(tmp_path, Sampling(max_new_tokens=8, temperature=1.0, top_k=-1, seed=-1), [prompt] * 3)
    assert found == [answer_greedily(tmp_path, prompt, most=8)] * 3

"""Small networks of published architectures: OpenVINO GenAI answers with what they themselves compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("openvino_genai")

from harness.backends import openvino_genai
from harness.benchmarks.language.decoder_graph import Architecture, DecoderShape
from harness.benchmarks.language.rehearsing import OwnAnswers, write_decoder
from harness.run.tokens import GenerationPlan, Sampling, StopSequence
from tests.unit.harness.recorder import Recorder

LIMIT, END, WORDS = 60, 0, 256


def make_plan(recorder: Recorder, model: Path, sampling: Sampling) -> GenerationPlan:
    return recorder.make_plan(model=model, sampling=sampling)


@pytest.mark.parametrize(
    ("architecture", "beams"),
    [("llama", 1), ("gptj", 1), ("gptj", 4), ("mixtral", 1), ("llama", 3), ("deepseek", 1), ("gpt_oss", 1)],
)
def test_openvino_genai_answers_as_the_network_does(architecture: Architecture, beams: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    write_decoder(DecoderShape(architecture=architecture, vocabulary=WORDS), tmp_path, rng, end=END)
    own, prompts = OwnAnswers(tmp_path), [rng.integers(1, WORDS, size).tolist() for size in (1, 3, 9, 27, 60)]
    most = 12
    if beams == 1:
        wanted = [own.answer(prompt, least=1, most=most, end=END) for prompt in prompts]
    else:
        wanted = [own.answer_by_beams(prompt, beams=beams, least=0, most=most, end=END) for prompt in prompts]
    recorder = Recorder(LIMIT)
    sampling = Sampling(min_new_tokens=1, max_new_tokens=most, beams=beams)
    generator = openvino_genai.load(make_plan(recorder, tmp_path, sampling))
    generator.place([np.array(prompt) for prompt in prompts])
    for row in range(len(prompts)):
        generator.submit(row, row)
    found = recorder.wait(len(prompts))
    generator.close()
    assert [found[row] for row in range(len(prompts))] == wanted
    assert any(len(answer) < most for answer in wanted)
    assert all(answer[-1] == END for answer in wanted if len(answer) < most)


def test_an_answer_has_nothing_behind_its_stop_sequence(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    write_decoder(DecoderShape(architecture="llama", vocabulary=WORDS), tmp_path, rng, end=END)
    prompt = rng.integers(1, WORDS, 9)
    whole = OwnAnswers(tmp_path).answer(prompt.tolist(), least=1, most=12, end=END)
    recorder = Recorder(LIMIT)
    sampling = Sampling(max_new_tokens=12, stop_sequences=(StopSequence("", tuple(whole[2:4])),))
    generator = openvino_genai.load(make_plan(recorder, tmp_path, sampling))
    generator.place([prompt, prompt], [0, 1])
    for row in range(2):
        generator.submit(row, row)
    found = recorder.wait(2)
    generator.close()
    assert (found[0], found[1]) == (whole, whole[:4])


def test_an_answer_does_not_end_before_it_may(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    write_decoder(DecoderShape(architecture="llama", vocabulary=WORDS, ends=50.0), tmp_path, rng, end=END)
    own = OwnAnswers(tmp_path)
    assert own.answer([5, 6], least=0, most=8, end=END) == [END]
    assert [len(own.answer([5, 6], least=least, most=8, end=END)) for least in (1, 3, 8)] == [2, 4, 8]
    assert len(own.answer_by_beams([5, 6], beams=2, least=3, most=8, end=END)) == 4


def test_what_is_drawn_of_sharp_scores_is_the_likeliest(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    write_decoder(DecoderShape(architecture="gpt_oss", vocabulary=WORDS, sharpness=1e4), tmp_path, rng, end=END)
    prompt = rng.integers(1, WORDS, 9)
    wanted = OwnAnswers(tmp_path).answer(prompt.tolist(), least=1, most=8, end=END)
    recorder = Recorder(LIMIT)
    sampling = Sampling(max_new_tokens=8, temperature=1.0, top_k=-1, seed=-1)
    generator = openvino_genai.load(make_plan(recorder, tmp_path, sampling))
    generator.place([prompt])
    for identity in range(3):
        generator.submit(identity, 0)
    found = recorder.wait(3)
    generator.close()
    assert [found[identity] for identity in range(3)] == [wanted] * 3

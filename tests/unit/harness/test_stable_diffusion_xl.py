"""Stable Diffusion XL on COCO's captions: read as the reference has them, tokens of CLIP, and scores of a rehearsal."""

from __future__ import annotations

import json
import struct
import zlib
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tokenizers")

from harness.benchmarks import stable_diffusion_xl
from harness.benchmarks import stable_diffusion_xl as sdxl
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.sources import REHEARSAL
from harness.benchmarks.stable_diffusion_xl import clip_tokens, encode_png
from harness.benchmarks.stable_diffusion_xl.clip_tokens import write_captions, write_tokenizer
from harness.errors import HarnessError
from tests.unit.harness.generated import build_dataset

COUNT, SIDE = 6, 32


@pytest.fixture(scope="module")
def pictures() -> np.ndarray:
    rng = np.random.default_rng(4)
    coarse = rng.integers(0, 256, (COUNT, 4, 4, 3))
    return np.kron(coarse, np.ones((1, SIDE // 4, SIDE // 4, 1))).astype(np.uint8)


@pytest.fixture
def source(tmp_path: Path, pictures: np.ndarray) -> Path:
    """As a rehearsal leaves it, without its pipeline."""
    folder = tmp_path / "data"
    captions = write_captions(folder / stable_diffusion_xl.CAPTIONS[0], COUNT, 1)
    for part in stable_diffusion_xl.TOKENIZERS.values():
        write_tokenizer(folder / part, captions, part)
    (folder / "latents").mkdir()
    np.save(folder / "latents/latents.npy", np.zeros((1, 4, SIDE // 8, SIDE // 8), np.float32))
    np.savez(folder / stable_diffusion_xl.REFERENCES, **stable_diffusion_xl.make_references(pictures))  # type: ignore[arg-type]
    (folder / REHEARSAL).write_text("{}")
    return folder


build = partial(build_dataset, sdxl.BENCHMARK)


def score(answers: list[bytes], dataset: Path) -> dict[str, float]:
    log = AnswerLog(np.arange(len(answers), dtype=np.intp), tuple(answers), 0, 0)
    return dict(sdxl.BENCHMARK.score(log, dataset, dataset))


def test_samples_are_tokens_that_share_latents_and_what_is_drawn_against(source: Path) -> None:
    dataset = build(source)
    samples, shared = sdxl.BENCHMARK.load_samples(dataset), sdxl.BENCHMARK.load_shared(dataset)
    assert {name: (rows.shape, rows.dtype.name) for name, rows in samples.items()} == {
        "input_ids": ((COUNT, 77), "int64"),
        "input_ids_2": ((COUNT, 77), "int64"),
    }
    assert shared["latents"].shape == (1, 4, SIDE // 8, SIDE // 8)
    vocabulary = json.loads((source / "tokenizer/vocab.json").read_text())
    begin, end = vocabulary[clip_tokens.BEGIN], vocabulary[clip_tokens.END]
    assert (samples["input_ids"][:, 0] == begin).all()
    first, second = samples["input_ids"][0], samples["input_ids_2"][0]
    length = int(np.argmax(first == end))
    assert (first[: length + 1] == second[: length + 1]).all()
    assert (first[length:] == end).all()
    assert (second[length + 1 :] == 0).all()
    assert samples["input_ids"][-1, -1] == end  # the long one is cut off
    assert (samples["input_ids"][-1, 1:-1] != end).all()
    assert shared["negative_input_ids"].shape == (1, 77)


def test_words_are_taken_apart_as_clip_does(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, ["a man is here", "the dog's ball", "a man is there"], "tokenizer")
    tokenizer = clip_tokens.read_tokenizer(tmp_path, "")
    one, other, spaced = clip_tokens.encode_captions(tokenizer, ["A  Man's\t12", "a man 's 1 2", "a man"])
    assert (one == other).all()
    names = {number: token for token, number in json.loads((tmp_path / "vocab.json").read_text()).items()}
    assert [names[int(token)] for token in spaced[:4]] == [clip_tokens.BEGIN, "a</w>", "man</w>", clip_tokens.END]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("captions/captions.tsv", None, "captions.tsv"),
        ("captions/captions.tsv", "id\tcaption\n1\t\n", "captions.tsv:2"),
        ("latents/latents.npy", "NUMPY", "latents.npy"),
        ("tokenizer_2/vocab.json", None, "tokenizer_2/vocab.json"),
        ("tokenizer/vocab.json", "{}", "tokenizer"),
        ("tokenizer/merges.txt", "a b c\n", "tokenizer"),
        (REHEARSAL, None, "5000"),
    ],
)
def test_what_is_not_the_references_is_named(source: Path, name: str, content: str | None, said: str) -> None:
    if content is None:
        (source / name).unlink()
    else:
        (source / name).write_text(content)
    with pytest.raises(HarnessError) as caught:
        build(source)
    assert said in caught.value.problem


def test_a_rehearsals_own_images_score_what_the_reference_model_does(source: Path, pictures: np.ndarray) -> None:
    dataset = build(source)
    own = [picture.tobytes() for picture in pictures]
    right = score(own, dataset)
    assert right["FID_SCORE"] == pytest.approx(stable_diffusion_xl.FID_SCORE, abs=1e-4)
    assert right["CLIP_SCORE"] == pytest.approx(stable_diffusion_xl.CLIP_SCORE, abs=1e-6)
    assert right["near"] == 100
    text = (dataset / "accuracy.txt").read_text()
    assert text.startswith("A rehearsal: colours stand in for CLIP and Inception; 100.000% of all values")
    assert "'CLIP_SCORE': '31.74981837'" in text
    others = score([*own[1:], own[0]], dataset)
    assert others["FID_SCORE"] == pytest.approx(
        stable_diffusion_xl.FID_SCORE, abs=1e-4
    )  # the same images, of other captions
    assert others["CLIP_SCORE"] < 31.6
    assert others["near"] < 50
    grey = score([bytes([128]) * (SIDE * SIDE * 3)] * COUNT, dataset)
    assert abs(grey["FID_SCORE"] - stable_diffusion_xl.FID_SCORE) > 0.5


def test_a_picture_of_an_answer_is_a_png(pictures: np.ndarray, tmp_path: Path) -> None:
    sdxl.BENCHMARK.show_answers([(3, pictures[3].tobytes())], tmp_path)
    data = (tmp_path / "3.png").read_bytes()
    assert data == encode_png(pictures[3].tobytes())
    found, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        found[kind] = body
        at += 12 + length
    assert struct.unpack(">II", found[b"IHDR"][:8]) == (SIDE, SIDE)
    rows = np.frombuffer(zlib.decompress(found[b"IDAT"]), np.uint8).reshape(SIDE, 1 + SIDE * 3)
    assert (rows[:, 1:].reshape(SIDE, SIDE, 3) == pictures[3]).all()

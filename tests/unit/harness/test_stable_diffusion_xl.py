"""Stable Diffusion XL on COCO's captions: read as the reference has them, tokens of CLIP, and scores of a rehearsal."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tokenizers")

from harness.benchmarks import stable_diffusion_xl as sdxl
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.sources import REHEARSAL
from harness.benchmarks.stable_diffusion_xl import clip_tokens, coco2014, scoring
from harness.benchmarks.stable_diffusion_xl.made_words import write_captions, write_tokenizer
from harness.benchmarks.stable_diffusion_xl.pictures import encode_png
from harness.contract import Benchmark, Counter, ScoreRequest
from harness.errors import HarnessError
from harness.verbs.score import execute

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
    captions = write_captions(folder / coco2014.CAPTIONS[0], COUNT, 1)
    for part in coco2014.TOKENIZERS.values():
        write_tokenizer(folder / part, captions, part)
    (folder / "latents").mkdir()
    np.save(folder / "latents/latents.npy", np.zeros((1, 4, SIDE // 8, SIDE // 8), np.float32))
    np.savez(folder / coco2014.REFERENCES, **scoring.make_references(pictures))  # type: ignore[arg-type]
    (folder / REHEARSAL).write_text("{}")
    return folder


def build(source: Path) -> Path:
    output = source.parent / "dataset"
    output.mkdir()
    sdxl.build_dataset(source, {}, output, Counter(source.parent / "counter"))
    return output


def score(answers: list[bytes], dataset: Path) -> dict[str, float]:
    log = AnswerLog(np.arange(len(answers), dtype=np.intp), tuple(answers), 0, 0)
    return dict(sdxl.score(log, dataset, dataset))


def test_samples_are_tokens_that_share_latents_and_what_is_drawn_against(source: Path) -> None:
    dataset = build(source)
    samples, shared = sdxl.load_samples(dataset), sdxl.load_shared(dataset)
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
    one, other, spaced = tokenizer.encode(["A  Man's\t12", "a man 's 1 2", "a man"])
    assert (one == other).all()
    names = {number: token for token, number in json.loads((tmp_path / "vocab.json").read_text()).items()}
    assert [names[int(token)] for token in spaced[:4]] == [clip_tokens.BEGIN, "a</w>", "man</w>", clip_tokens.END]


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda folder: (folder / "captions/captions.tsv").unlink(), "has no captions/captions.tsv"),
        (lambda folder: (folder / "captions/captions.tsv").write_text("id\tcaption\n1\t\n"), "captions.tsv:2 has no"),
        (
            lambda folder: (folder / "latents/latents.npy").write_bytes(b"\x93NUMPY"),
            "latents.npy is not a whole npy file",
        ),
        (lambda folder: (folder / "tokenizer_2/vocab.json").unlink(), "has no tokenizer_2/vocab.json"),
        (lambda folder: (folder / "tokenizer/vocab.json").write_text("{}"), "does not hold a tokenizer of CLIP"),
        (lambda folder: (folder / "tokenizer/merges.txt").write_text("a b c\n"), "does not hold a tokenizer of CLIP"),
        (lambda folder: (folder / REHEARSAL).unlink(), f"has {COUNT} captions, the set has 5000"),
    ],
)
def test_what_is_not_the_references_is_named(source: Path, damage: object, told: str) -> None:
    damage(source)  # type: ignore[operator]
    with pytest.raises(HarnessError, match=told):
        build(source)


def test_latents_are_the_references_own(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="other latents than the reference's"):
        coco2014.check_latents(np.zeros(coco2014.SHAPE, np.float32), tmp_path)
    with pytest.raises(HarnessError, match=r"latents \[1, 4, 16, 16\], not \[1, 4, 128, 128\]"):
        coco2014.check_latents(np.zeros((1, 4, 16, 16), np.float32), tmp_path)


def test_a_rehearsals_own_images_score_what_the_reference_model_does(source: Path, pictures: np.ndarray) -> None:
    dataset = build(source)
    own = [picture.tobytes() for picture in pictures]
    right = score(own, dataset)
    assert right["FID_SCORE"] == pytest.approx(scoring.FID_SCORE, abs=1e-4)
    assert right["CLIP_SCORE"] == pytest.approx(scoring.CLIP_SCORE, abs=1e-6)
    assert right["near"] == 100
    text = (dataset / "accuracy.txt").read_text()
    assert text.startswith("A rehearsal: colours stand in for CLIP and Inception; 100.000% of all values")
    assert "'CLIP_SCORE': '31.74981837'" in text
    others = score([*own[1:], own[0]], dataset)
    assert others["FID_SCORE"] == pytest.approx(scoring.FID_SCORE, abs=1e-4)  # the same images, of other captions
    assert others["CLIP_SCORE"] < 31.6
    assert others["near"] < 50
    grey = score([bytes([128]) * (SIDE * SIDE * 3)] * COUNT, dataset)
    assert abs(grey["FID_SCORE"] - scoring.FID_SCORE) > 0.5


def test_answers_of_another_size_are_refused(source: Path) -> None:
    dataset = build(source)
    with pytest.raises(HarnessError, match="not a square picture"):
        score([b"abcd"], dataset)
    with pytest.raises(HarnessError, match=r"sample 0 is a picture of \[1, 1, 3\]"):
        score([b"abc"], dataset)


def test_real_captions_are_left_to_the_official_script(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="the networks of CLIP and Inception") as caught:
        score([b"abc"], tmp_path)
    assert "harness.score.command" in caught.value.fix


def test_a_picture_of_an_answer_is_a_png(pictures: np.ndarray, tmp_path: Path) -> None:
    sdxl.show_answers([(3, pictures[3].tobytes())], tmp_path)
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


def test_a_score_shows_the_answers_that_the_round_wants(source: Path, pictures: np.ndarray, tmp_path: Path) -> None:
    dataset, log, output = build(source), tmp_path / "log.json", tmp_path / "score"
    output.mkdir()
    entries = [{"seq_id": n, "qsl_idx": n, "data": picture.tobytes().hex()} for n, picture in enumerate(pictures)]
    log.write_text(json.dumps(entries))
    request = ScoreRequest(
        benchmark=Benchmark(name="stable_diffusion_xl"),
        accuracy_log=str(log),
        output=str(output),
        counter=str(tmp_path / "counter"),
        inputs={"dataset": str(dataset)},
        shown=("2", "4655"),
        shown_folder="images",
    )
    assert execute(request, lambda error: None).values["missing"] == 0
    assert sorted(path.name for path in output.rglob("*.png")) == ["2.png"]
    assert (output / "images/2.png").read_bytes() == encode_png(pictures[2].tobytes())

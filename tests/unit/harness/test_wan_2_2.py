"""Wan 2.2 on prompts of VBench: read as the reference has them, tokens of UMT5's kind, videos as files, and the way to
the official script and back."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tokenizers")

from harness.benchmarks import wan_2_2
from harness.benchmarks import wan_2_2 as wan
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.sources import REHEARSAL
from harness.benchmarks.wan_2_2 import prompts, vbench
from harness.benchmarks.wan_2_2.prompts import write_prompts, write_tokenizer
from harness.errors import HarnessError
from tests.unit.harness.generated import build_dataset

COUNT = 4
LATENTS = (1, 16, 2, 2, 4)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As a rehearsal leaves it, without its pipeline; a latent needs PyTorch to be read, and here does not."""
    folder = tmp_path / "data"
    texts = write_prompts(folder / prompts.PROMPTS[0], COUNT, 1)
    write_tokenizer(folder / prompts.TOKENIZER, [*texts, prompts.AGAINST])
    (folder / prompts.LATENT[0]).write_bytes(b"PK")
    (folder / prompts.REFERENCES).mkdir()
    for number in range(COUNT):
        (folder / prompts.REFERENCES / f"{number}.mp4").write_bytes(bytes([number] * 8))
    (folder / REHEARSAL).write_text("{}")
    monkeypatch.setattr(prompts, "read_latent", lambda _: np.ones(LATENTS, np.float32))
    return folder


build = partial(build_dataset, wan.BENCHMARK)


def make_log(answers: list[bytes]) -> AnswerLog:
    return AnswerLog(np.arange(len(answers), dtype=np.intp), tuple(answers), 0, 0)


def test_samples_are_tokens_that_share_a_latent_and_what_is_drawn_against(source: Path) -> None:
    dataset = build(source)
    samples, shared = wan.BENCHMARK.load_samples(dataset), wan.BENCHMARK.load_shared(dataset)
    assert {name: (rows.shape, rows.dtype.name) for name, rows in samples.items()} == {
        "input_ids": ((COUNT, 512), "int64"),
        "attention_mask": ((COUNT, 512), "int64"),
    }
    for ids, mask in zip(samples["input_ids"], samples["attention_mask"], strict=True):
        length = int(mask.sum())
        assert mask[:length].all()
        assert ids[length - 1] == 1  # the end
        assert not ids[length:].any()
        assert (ids[:length] > 0).all()
    assert shared["latents"].shape == LATENTS
    assert shared["negative_attention_mask"].sum() > 40
    assert (dataset / "prompts.txt").read_text() == (source / prompts.PROMPTS[0]).read_text()


def test_a_prompt_is_cleaned_filled_up_and_cut_off(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, ["a cat & a dog"])
    tokenizer = prompts.read_tokenizer(tmp_path, "")
    ids, mask = prompts.encode_prompts(tokenizer, ["a cat & a dog", "  a  cat &amp;amp; a\tdog\n", "dog " * 600])
    assert (ids[0] == ids[1]).all()
    assert int(mask[0].sum()) == 6  # and the end
    assert mask[2].all()
    assert ids[2, -1] == 1
    assert len(set(ids[2, :-1].tolist())) == 1


@pytest.mark.parametrize(
    ("damage", "reported"),
    [
        (lambda folder: (folder / "vbench_prompts.txt").unlink(), "has no vbench_prompts.txt"),
        (lambda folder: (folder / "vbench_prompts.txt").write_text("\n \n"), "vbench_prompts.txt has no prompts"),
        (lambda folder: (folder / "vbench_prompts.txt").write_bytes(b"\xff\xfe"), "vbench_prompts.txt cannot be read"),
        (lambda folder: (folder / "fixed_latent.pt").unlink(), "has no fixed_latent.pt"),
        (lambda folder: (folder / "tokenizer/tokenizer.json").unlink(), "has no tokenizer/tokenizer.json"),
        (lambda folder: (folder / "tokenizer/tokenizer.json").write_text("{"), "tokenizer.json is truncated or not"),
        (lambda folder: (folder / REHEARSAL).unlink(), f"is truncated: {COUNT} prompts, the set has 248"),
    ],
)
def test_what_is_not_the_references_is_named(source: Path, damage: Any, reported: str) -> None:
    damage(source)
    with pytest.raises(HarnessError, match=reported) as caught:
        build(source)
    assert caught.value.fix
    assert not list((source.parent / "dataset").iterdir())


def test_a_rehearsals_own_videos_score_what_the_reference_model_does(source: Path) -> None:
    dataset = build(source)
    own = [(source / prompts.REFERENCES / f"{number}.mp4").read_bytes() for number in range(COUNT)]
    assert wan.BENCHMARK.score(make_log(own), dataset, dataset) == {"vbench_score": 70.48, "near": 100}
    text = (dataset / "accuracy.txt").read_text()
    assert text.startswith("A rehearsal: frames as they were generated stand in for VBench; 100.000% of all values are")
    assert text.endswith("{'vbench_score': 70.48}\n")


def test_an_answer_is_a_video_that_any_program_reads(tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg", reason="ffmpeg is not installed: pip install -e '.[wan-2-2]'")
    grey = np.broadcast_to(np.array([40, 120, 200], np.uint8).reshape(3, 1, 1, 1, 1), (3, 5, 32, 48, 3))
    answers = wan.BENCHMARK.postprocess([grey])
    assert len(answers) == 3
    assert all(answer.dtype == np.uint8 and answer.tobytes()[4:8] == b"ftyp" for answer in answers)
    for answer, wanted in zip(answers, grey, strict=True):
        found = wan_2_2.decode_video(answer.tobytes())
        assert found.shape == wanted.shape
        assert np.abs(found.astype(np.int16) - wanted).max() <= 4
    wan.BENCHMARK.show_answers([(130, answers[0].tobytes())], tmp_path)
    assert (tmp_path / "130.mp4").read_bytes() == answers[0].tobytes()
    with pytest.raises(HarnessError, match="an answer of 3 bytes is not a video"):
        wan_2_2.decode_video(b"abc")


# Between LoadGen's log and the official script

SCRIPT = """
import json, sys
from pathlib import Path

options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
names = sorted(path.name for path in Path(options["--videos-path"]).iterdir())
print("a page for people", names)
said = {name: [0.5 + 0.1 * number, []] for number, name in enumerate(options["--dimensions"].split(","))}
if options.get("--fails"):
    sys.exit(7)
Path(options["--output-path"], "results_2026-01-01-00:00:00_eval_results.json").write_text(json.dumps(said))
"""


@pytest.fixture
def logged(tmp_path: Path) -> Path:
    """An accuracy log of three videos, the prompts, and a script in the place of the official one."""
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset/prompts.txt").write_text("a cat\na dog, pixel art\na car\n")
    (tmp_path / "run").mkdir()
    entries = [{"seq_id": n, "qsl_idx": i, "data": bytes([i] * 4).hex()} for n, i in enumerate((2, 0, 1))]
    (tmp_path / "log.json").write_text(json.dumps(entries))
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path


def evaluate(folder: Path, *more: str, dimensions: tuple[str, ...] = vbench.DIMENSIONS) -> int:
    own = [str(folder / name) for name in ("log.json", "dataset", "run")]
    official = [sys.executable, str(folder / "script.py"), "--dimensions", ",".join(dimensions), *more]
    return vbench.main([*own, "--show", "1,238", "--", *official])


def test_videos_reach_the_script_by_prompts_and_are_scored(logged: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert evaluate(logged) == 0
    printed = capfd.readouterr()
    assert printed.out == "{'vbench_score': 75.0}\n"
    assert "['a car-0.mp4', 'a cat-0.mp4', 'a dog, pixel art-0.mp4']" in printed.err
    assert (logged / "run/vbench/a dog, pixel art-0.mp4").read_bytes() == bytes([1] * 4)
    assert [path.name for path in (logged / "run/videos").iterdir()] == ["1.mp4"]


def test_a_failed_script_or_missing_dimension_is_no_score(logged: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert evaluate(logged, "--fails", "yes") == 1
    assert "ended with status 7" in capfd.readouterr().err
    assert evaluate(logged, dimensions=vbench.DIMENSIONS[1:]) == 1
    printed = capfd.readouterr()
    assert "does not contain all of appearance_style" in printed.err
    assert not printed.out


def test_missing_answers_are_reported_before_evaluation(logged: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with (logged / "dataset/prompts.txt").open("a") as stream:
        stream.write("a boat\n")
    assert evaluate(logged) == 1
    printed = capfd.readouterr().err
    assert "log.json has answers to 3 of 4 prompts; run accuracy again" in printed
    assert "a page for people" not in printed

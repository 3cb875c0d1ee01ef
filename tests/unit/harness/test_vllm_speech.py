"""Speech through the vLLM backend: what it asks the engine, and that it transcribes as Hugging Face's own code does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.contract import BACKENDS
from harness.errors import HarnessError
from harness.tokens import SOUNDS, GenerationPlan, Sampling, Spoken
from tests.speech_checkpoints import write_checkpoint
from tests.unit.harness import fake_vllm
from tests.unit.harness.heard import Heard
from tests.unit.harness.test_vllm import arguments, backend, checkpoint, heard, load  # noqa: F401

HALF = "\ufffd"  # of bytes that are no character: the one tells of them while tokens come, the other at the end
SECOND = np.zeros(16_000, np.float32)
SAYS: dict[str, Any] = {
    "decoder_start_token_id": 50258,
    "no_timestamps_token_id": 50364,
    "lang_to_id": {"<|en|>": 50259},
    "task_to_id": {"transcribe": 50360},
    "eos_token_id": 50257,
}
Load = Callable[..., Any]


@pytest.fixture
def whisper(checkpoint: Path) -> Path:  # noqa: F811
    (checkpoint / "generation_config.json").write_text(json.dumps(SAYS))
    return checkpoint


@pytest.mark.usefixtures("whisper")
def test_a_sound_is_asked_with_the_prompt_of_the_reference_and_answered_by_a_text(load: Load, heard: Heard) -> None:  # noqa: F811
    engine = load(scenario="Offline", streaming=False, samples=SOUNDS)
    engine.place([SECOND, SECOND[:8000]])
    for row in range(2):
        engine.submit(100 + row, row)
    begins = "[50258, 50259, 50360, 50364]"
    assert heard.wait(2) == {
        100: Spoken(f" 1.0 s after {begins}", 4),
        101: Spoken(f" 0.5 s after {begins}", 4),
    }


@pytest.mark.usefixtures("whisper")
def test_nothing_that_was_heard_of_a_sound_serves_another_query(load: Load) -> None:  # noqa: F811
    load(scenario="Offline", streaming=False, samples=SOUNDS)
    assert arguments()["mm_processor_cache_gb"] == 0
    assert not arguments().get("skip_tokenizer_init")


@pytest.mark.usefixtures("whisper")
def test_as_many_sounds_are_heard_at_once_as_the_spec_gives_threads(
    load: Load,  # noqa: F811
    heard: Heard,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fake_vllm.Renderer, "together", True)
    engine = load(scenario="Offline", streaming=False, samples=SOUNDS, threads=3)
    assert arguments()["renderer_num_workers"] == 3
    engine.place([SECOND] * 6)
    for row in range(6):
        engine.submit(row, row)
    assert {answer.text for answer in heard.wait(6).values()} == {" 1.0 s after [50258, 50259, 50360, 50364]"}


def test_a_checkpoint_of_english_alone_has_no_language_to_name(whisper: Path, load: Load, heard: Heard) -> None:  # noqa: F811
    said = {name: value for name, value in SAYS.items() if not name.endswith("_to_id")}
    (whisper / "generation_config.json").write_text(json.dumps(said))
    engine = load(scenario="Offline", streaming=False, samples=SOUNDS)
    engine.place([SECOND])
    engine.submit(1, 0)
    assert heard.wait(1) == {1: Spoken(" 1.0 s after [50258, 50364]", 4)}


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(None, id="no file"),
        pytest.param("[1]", id="a list"),
        pytest.param(json.dumps({**SAYS, "task_to_id": {}}), id="no task"),
    ],
)
def test_a_checkpoint_that_does_not_say_how_a_transcript_begins_is_named(
    said: str | None,
    checkpoint: Path,  # noqa: F811
    load: Load,  # noqa: F811
) -> None:
    if said is not None:
        (checkpoint / "generation_config.json").write_text(said)
    with pytest.raises(HarnessError, match="does not say how a transcript begins") as caught:
        load(scenario="Offline", streaming=False, samples=SOUNDS)
    assert "generation_config.json" in caught.value.fix


def test_a_plan_may_choose_vllm_for_speech() -> None:
    assert "sound" in BACKENDS["vllm"].takes


def test_vllm_transcribes_as_transformers_does(tmp_path: Path) -> None:
    pytest.importorskip("vllm")
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    from harness.backends import vllm as vllm_backend

    layers = {f"{part}_{name}": value for part in ("encoder", "decoder") for name, value in SMALL.items()}
    write_checkpoint(tmp_path / "checkpoint", {"d_model": 64, "vocab_size": 600, **layers}, weights=True)
    rng = np.random.default_rng(3)
    sounds = [(rng.standard_normal(16_000 * (1 + row)) / 10).clip(-1, 1).astype(np.float32) for row in range(4)]
    heard = Heard(300)  # noqa: F811
    plan = GenerationPlan(
        model=None,
        source=tmp_path / "checkpoint",
        scenario="Offline",
        sampling=Sampling(min_new_tokens=4, max_new_tokens=24),
        streaming=False,
        logged=True,
        threads=0,
        precision="fp32",
        options={"graphs": False, "sequences": 4},
        first=heard.first,
        completed=heard.result,
        failed=heard.result,
        samples=SOUNDS,
    )
    engine = vllm_backend.load(plan)
    try:
        engine.place(sounds)
        for row in range(len(sounds)):
            engine.submit(row, row)
        found: Any = heard.wait(len(sounds))
    finally:
        engine.close()
    network = transformers.WhisperForConditionalGeneration.from_pretrained(tmp_path / "checkpoint").eval()
    processor = transformers.WhisperProcessor.from_pretrained(tmp_path / "checkpoint")
    for row, sound in enumerate(sounds):
        features = processor(sound, sampling_rate=16_000, return_tensors="pt").input_features
        with torch.no_grad():
            tokens = network.generate(
                features, language="en", task="transcribe", min_new_tokens=4, max_new_tokens=24, do_sample=False
            )[0]
        said = tokens[: found[row].tokens]  # it does not stop at the bound
        text = processor.decode(said, skip_special_tokens=True)
        assert found[row].text.replace(HALF, "") == text.replace(HALF, "")
    assert len({answer.text for answer in found.values()}) > 1, "the answers depend on what is heard"


SMALL = {"layers": 1, "attention_heads": 2, "ffn_dim": 128}

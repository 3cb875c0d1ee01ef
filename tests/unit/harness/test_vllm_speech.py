"""Speech through the vLLM backend: what it asks the engine, and that it transcribes as Hugging Face's own code does."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from harness.contract import BACKENDS
from harness.errors import HarnessError
from harness.run.tokens import SOUNDS, GenerationPlan, Sampling, Spoken
from tests.speech_checkpoints import write_checkpoint
from tests.unit.harness import fake_vllm
from tests.unit.harness.heard import Heard
from tests.unit.harness.test_vllm import arguments, backend, checkpoint, heard, load  # noqa: F401

LISTENER = "harness.backends.vllm.listener"
ROOT = Path(__file__).resolve().parents[3]
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


@pytest.fixture(autouse=True)
def listeners_end() -> Iterator[None]:
    """Whatever becomes of an engine, no process of its own is left when it is closed."""
    yield
    assert not [each.cmdline() for each in psutil.Process().children() if LISTENER in each.cmdline()]


@pytest.fixture
def whisper(
    checkpoint: Path,  # noqa: F811
    backend: Any,  # noqa: F811
    tmp_path: Path,
) -> Path:
    library = tmp_path / "library"
    library.mkdir()
    fake_vllm.write_library(library)
    os.environ["PYTHONPATH"] = f"{library}:{ROOT}"  # of a copy that is forgotten: see ``backend``
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
def test_sounds_are_heard_by_processes_on_half_of_the_threads_and_none_goes_by_the_name_of_another(
    load: Load,  # noqa: F811
    heard: Heard,  # noqa: F811
) -> None:
    engine = load(scenario="Offline", streaming=False, samples=SOUNDS, threads=4)
    engine.place([SECOND] * 40)
    for row in range(40):
        engine.submit(row, row)
    assert {answer.text for answer in heard.wait(40).values()} == {" 1.0 s after [50258, 50259, 50360, 50364]"}
    made = fake_vllm.Engine.made
    assert len(set(made.names)) == 40
    assert len(made.listeners) == 2
    assert os.getpid() not in made.listeners
    assert (engine.notes["listeners"], engine.notes["sounds_heard"]) == (2, 40)


@pytest.mark.usefixtures("whisper")
def test_a_sound_that_cannot_be_heard_fails_the_run_by_what_is_wrong(load: Load, heard: Heard) -> None:  # noqa: F811
    engine = load(scenario="Offline", streaming=False, samples=SOUNDS)
    engine.place([np.full(16_000, 0.5, np.float32)])
    engine.submit(1, 0)
    assert heard.failure().problem == "vLLM cannot hear a sound: ValueError: no such mel"


@pytest.mark.usefixtures("whisper")
def test_a_process_that_is_killed_while_it_hears_fails_the_run_and_the_others_end(load: Load, heard: Heard) -> None:  # noqa: F811
    engine = load(scenario="Offline", streaming=False, samples=SOUNDS, threads=4)
    engine.place([SECOND, np.full(16_000, 0.25, np.float32)])
    for identity in range(20):  # both of them
        engine.submit(identity, 0)
    heard.wait(20)
    heard.results.clear()
    for identity in range(6):
        engine.submit(100 + identity, 1)
    os.kill(min(fake_vllm.Engine.made.listeners), signal.SIGKILL)
    assert heard.failure(6).problem == "a process that hears sounds was ended by SIGKILL"
    engine.submit(200, 0)  # which comes too late
    assert heard.failure(7).problem == "a process that hears sounds was ended by SIGKILL"


def test_a_process_that_cannot_start_to_hear_ends_the_run_and_the_engine(whisper: Path, load: Load) -> None:  # noqa: F811
    (whisper.parent / "library" / "torch.py").write_text("raise ImportError('libcudart.so: cannot open')\n")
    with pytest.raises(HarnessError, match="a process that hears sounds ended with 1"):
        load(scenario="Offline", streaming=False, samples=SOUNDS)
    assert fake_vllm.Engine.made.closed


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

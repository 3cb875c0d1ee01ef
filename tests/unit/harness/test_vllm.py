"""The vLLM backend, part by part: what it passes to the engine, and what it makes of answers and failures."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import psutil
import pytest

from harness.backends import load_backend
from harness.errors import HarnessError
from harness.run.tokens import SOUNDS, Sampling, Spoken, StopSequence
from tests.speech_checkpoints import write_checkpoint
from tests.unit.harness import fake_vllm
from tests.unit.harness.recorder import Recorder

TOKENS = 4
PROMPTS = [np.array([10 * (row + 1), 3, 5], np.int32) for row in range(6)]
Load = Callable[..., Any]


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The backend, upon a library that computes nothing."""
    for name in [name for name in sys.modules if name.startswith(("harness.backends.vllm", "vllm"))]:
        monkeypatch.delitem(sys.modules, name)
    for name, module in fake_vllm.make_modules(str(tmp_path)).items():
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("", ".arguments", ".engine"):  # forgotten again at the end
        monkeypatch.setitem(sys.modules, f"harness.backends.vllm{name}", ModuleType("forgotten"))
        monkeypatch.delitem(sys.modules, f"harness.backends.vllm{name}")
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(fake_vllm.Engine, "mischief", "")
    return load_backend("vllm")  # type: ignore[return-value]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder(20)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "eos_token_id": 7}))
    return folder


@pytest.fixture
def load(backend: Any, recorder: Recorder, checkpoint: Path) -> Iterator[Load]:
    made = []
    with ExitStack() as stack:

        def load(**changed: Any) -> Any:
            served: dict[str, Any] = {
                "scenario": "Server",
                "sampling": Sampling(max_new_tokens=TOKENS),
                "streaming": True,
            }
            engine = backend.load(recorder.make_plan(source=checkpoint, **served | changed))
            stack.callback(engine.close)
            made.append(fake_vllm.Engine.made)
            engine.place(PROMPTS)
            return engine

        yield load
        assert not any(engine.closed for engine in made)
    assert all(engine.closed for engine in made), "closing ends the engine"


def arguments() -> dict[str, Any]:
    return fake_vllm.Engine.made.arguments


def expected(row: int) -> list[int]:
    return [10 * (row + 1) + place for place in range(TOKENS)]


@pytest.mark.parametrize("streaming", [True, False])
def test_answers_are_the_tokens_that_the_engine_gave(streaming: bool, load: Load, recorder: Recorder) -> None:
    engine = load(streaming=streaming)
    for row in range(len(PROMPTS)):
        engine.submit(100 + row, row)
    assert recorder.wait(len(PROMPTS)) == {100 + row: expected(row) for row in range(len(PROMPTS))}
    firsts = {100 + row: expected(row)[:1] for row in range(len(PROMPTS))}
    assert recorder.firsts == (firsts if streaming else {})


@pytest.mark.parametrize("streaming", [True, False])
def test_nothing_is_computed_behind_a_stop_sequence(streaming: bool, load: Load, recorder: Recorder) -> None:
    stops = (StopSequence("one", (31, 32)), StopSequence("two", (43,)))
    engine = load(streaming=streaming, sampling=Sampling(max_new_tokens=TOKENS, stop_sequences=stops))
    engine.place(PROMPTS, [0, 0, 1, 2, 1, 0])
    for row in range(len(PROMPTS)):
        engine.submit(row, row)
    wanted = {row: expected(row) for row in range(len(PROMPTS))} | {2: [30, 31, 32]}
    assert recorder.wait(len(PROMPTS)) == wanted
    made = fake_vllm.Engine.made
    assert made.begun == len(PROMPTS)
    assert made.ended == len(PROMPTS) - 2  # the last token of row 3 ends it, and the engine was not left to say so


def test_an_engine_process_that_fails_is_reported_with_its_own_error(
    load: Load, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fake_vllm.Engine, "mischief", "load")
    with pytest.raises(HarnessError, match="cannot load checkpoint: Engine core initialization failed"):
        load()
    os.write(2, b"(EngineCore pid=7) ERROR 11-29 17:39:27 [core.py:1330] ValueError: no room for the cache\n")
    with pytest.raises(HarnessError, match="checkpoint: ValueError: no room for the cache"):
        load()


def test_options_of_the_spec_are_passed_under_the_names_of_vllm(load: Load) -> None:
    options = {
        "tensor_parallel": 2,
        "replicas": 4,
        "sequences": 512,
        "batched_tokens": 16384,
        "memory_percent": 92,
        "kv_cache": "fp8",
        "quantization": "fp8",
        "graphs": False,
        "random_weights": True,
        "cache_gib": 3,
        "extra": '{"max_num_seqs": 1024, "async_scheduling": true}',
    }
    engine = load(options=options, precision="fp8", threads=3)
    found = arguments()
    asked = {
        "tensor_parallel_size": 2,
        "data_parallel_size": 4,
        "max_num_seqs": 1024,
        "max_num_batched_tokens": 16384,
        "gpu_memory_utilization": 0.92,
        "kv_cache_dtype": "fp8",
        "quantization": "fp8",
        "dtype": "auto",
        "enforce_eager": True,
        "load_format": "dummy",
        "async_scheduling": True,
    }
    assert {name: found[name] for name in asked} == asked
    assert os.environ["VLLM_CPU_KVCACHE_SPACE"] == "3"
    assert os.environ["VLLM_CPU_OMP_THREADS_BIND"] == "0-2"
    assert engine.notes["sequences"] == 1024


def test_the_network_of_a_rehearsal_is_refused_before_the_engine_starts(load: Load, checkpoint: Path) -> None:
    (checkpoint / "openvino_model.xml").touch()
    with pytest.raises(HarnessError) as caught:
        load()
    assert "openvino-genai" in (caught.value.fix or "")
    (checkpoint / "model.safetensors").touch()
    load()


@pytest.mark.parametrize(("device", "used"), [("cuda", 2), ("cpu", 0)])
def test_telemetry_and_records_name_the_gpus_of_the_engine(
    device: str, used: int, load: Load, backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory = [{"bus": f"0000:{n}b:00.0", "name": "NVIDIA H200", "driver": "580.1"} for n in range(4)]
    monkeypatch.setattr(backend, "list_accelerators", lambda: inventory)
    monkeypatch.setattr(fake_vllm.Engine, "device", device)
    engine = load(options={"tensor_parallel": 2})
    assert engine.notes["devices"] == ["0000:0b:00.0", "0000:1b:00.0"][:used]
    assert engine.evidence == ({"gpu.name": ["NVIDIA H200"], "gpu.driver": "580.1"} if used else {})


@pytest.mark.parametrize(
    ("generation", "stop", "ends"),
    [({}, (), [7]), ({"eos_token_id": [3, 9]}, (), [3, 9]), ({"eos_token_id": 4}, (), [4]), ({}, (1, 2), [1, 2])],
)
def test_tokens_that_end_an_answer_are_passed_with_each_prompt(
    generation: dict[str, Any], stop: tuple[int, ...], ends: list[int], load: Load, checkpoint: Path
) -> None:
    from harness.backends.vllm import make_parameters
    from harness.backends.vllm.arguments import find_checkpoint

    if generation:
        (checkpoint / "generation_config.json").write_text(json.dumps(generation))
    load()
    plan = type("Plan", (), {"source": checkpoint, "model": None})
    sampling = Sampling(min_new_tokens=2, max_new_tokens=TOKENS, stop=stop)
    made: Any = make_parameters(sampling, find_checkpoint(plan).ends, streaming=True)  # type: ignore[arg-type]
    assert made.stop_token_ids == ends
    assert (made.min_tokens, made.max_tokens, made.temperature, made.detokenize) == (2, TOKENS, 0.0, False)
    assert not hasattr(made, "seed")
    drawn: Any = make_parameters(Sampling(temperature=0.5, seed=3), (), streaming=False)
    assert (drawn.temperature, drawn.seed, drawn.output_kind) == (0.5, 3, "final only")


@pytest.mark.parametrize(
    ("mischief", "said"),
    [
        ("dies", "vLLM failed: RuntimeError: EngineCore encountered an issue"),
        ("aborts", "vLLM aborted a prompt (abort)"),
    ],
)
def test_first_failure_ends_all_that_is_under_way(
    mischief: str, said: str, load: Load, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake_vllm.Engine, "mischief", mischief)
    engine = load()
    engine.place([np.array([67]), np.array([66]), np.array([1])])
    for identity in range(2):
        engine.submit(identity, identity)
    assert recorder.failure(2).problem == said
    assert fake_vllm.Engine.made.cancelled == 1
    engine.submit(2, 2)
    assert recorder.failure(3).problem == said


LISTENER = "harness.backends.vllm.speech_worker"
ROOT = Path(__file__).resolve().parents[3]
HALF = "\ufffd"  # of bytes that are no character: the one reports them while tokens come, the other at the end
SMALL = {"layers": 1, "attention_heads": 2, "ffn_dim": 128}
SECOND = np.zeros(16_000, np.float32)
SAYS: dict[str, Any] = {
    "decoder_start_token_id": 50258,
    "no_timestamps_token_id": 50364,
    "lang_to_id": {"<|en|>": 50259},
    "task_to_id": {"transcribe": 50360},
    "eos_token_id": 50257,
}


@pytest.fixture(autouse=True)
def listeners_end() -> Iterator[None]:
    """Whatever becomes of an engine, no process of its own is left when it is closed."""
    yield
    assert not [each.cmdline() for each in psutil.Process().children() if LISTENER in each.cmdline()]


@pytest.fixture
def whisper(checkpoint: Path, backend: Any, tmp_path: Path) -> Path:
    library = tmp_path / "library"
    library.mkdir()
    fake_vllm.write_library(library)
    os.environ["PYTHONPATH"] = f"{library}:{ROOT}"  # of a copy that is forgotten: see ``backend``
    (checkpoint / "generation_config.json").write_text(json.dumps(SAYS))
    return checkpoint


@pytest.mark.usefixtures("whisper")
def test_a_sound_is_asked_with_the_references_prompt_and_answered_by_text(load: Load, recorder: Recorder) -> None:
    engine = load(scenario="Offline", streaming=False, samples=SOUNDS)
    engine.place([SECOND, SECOND[:8000]])
    for row in range(2):
        engine.submit(100 + row, row)
    begins = "[50258, 50259, 50360, 50364]"
    assert recorder.wait(2) == {
        100: Spoken(f" 1.0 s after {begins}", 4),
        101: Spoken(f" 0.5 s after {begins}", 4),
    }


@pytest.mark.usefixtures("whisper")
def test_sounds_are_transcribed_by_processes_on_half_of_the_threads_and_none_goes_by_the_name_of_another(
    load: Load, recorder: Recorder
) -> None:
    engine = load(scenario="Offline", streaming=False, samples=SOUNDS, threads=4)
    engine.place([SECOND] * 40)
    for row in range(40):
        engine.submit(row, row)
    assert {answer.text for answer in recorder.wait(40).values()} == {" 1.0 s after [50258, 50259, 50360, 50364]"}
    made = fake_vllm.Engine.made
    assert len(set(made.names)) == 40
    assert len(made.listeners) == 2
    assert os.getpid() not in made.listeners
    assert (engine.notes["listeners"], engine.notes["sounds_heard"]) == (2, 40)


@pytest.mark.usefixtures("whisper")
def test_a_listener_that_is_killed_fails_the_run_and_the_others_end(load: Load, recorder: Recorder) -> None:
    engine = load(scenario="Offline", streaming=False, samples=SOUNDS, threads=4)
    engine.place([SECOND, np.full(16_000, 0.25, np.float32)])
    for identity in range(20):  # both of them
        engine.submit(identity, 0)
    recorder.wait(20)
    recorder.results.clear()
    for identity in range(6):
        engine.submit(100 + identity, 1)
    os.kill(min(fake_vllm.Engine.made.listeners), signal.SIGKILL)
    assert recorder.failure(6).problem == "an audio feature process was ended by SIGKILL"
    engine.submit(200, 0)  # which comes too late
    assert recorder.failure(7).problem == "an audio feature process was ended by SIGKILL"


def test_a_process_that_cannot_start_to_listen_ends_the_run_and_the_engine(whisper: Path, load: Load) -> None:
    (whisper.parent / "library" / "torch.py").write_text("raise ImportError('libcudart.so: cannot open')\n")
    with pytest.raises(HarnessError, match="an audio feature process ended with 1"):
        load(scenario="Offline", streaming=False, samples=SOUNDS)
    assert fake_vllm.Engine.made.closed


def test_vllm_transcribes_as_transformers_does(tmp_path: Path) -> None:
    pytest.importorskip("vllm")
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    from harness.backends import vllm as vllm_backend

    layers = {f"{part}_{name}": value for part in ("encoder", "decoder") for name, value in SMALL.items()}
    write_checkpoint(tmp_path / "checkpoint", {"d_model": 64, "vocab_size": 600, **layers}, weights=True)
    rng = np.random.default_rng(3)
    sounds = [(rng.standard_normal(16_000 * (1 + row)) / 10).clip(-1, 1).astype(np.float32) for row in range(4)]
    recorder = Recorder(300)
    plan = recorder.make_plan(
        source=tmp_path / "checkpoint",
        sampling=Sampling(min_new_tokens=4, max_new_tokens=24),
        options={"graphs": False, "sequences": 4},
        samples=SOUNDS,
    )
    engine = vllm_backend.load(plan)
    try:
        engine.place(sounds)
        for row in range(len(sounds)):
            engine.submit(row, row)
        found: Any = recorder.wait(len(sounds))
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

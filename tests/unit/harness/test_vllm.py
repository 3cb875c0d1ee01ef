"""The vLLM backend, part by part: what it tells the engine, and what it makes of answers and failures."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from harness.backends import load_backend
from harness.errors import HarnessError
from harness.run.tokens import GenerationPlan, Sampling, StopSequence
from tests.unit.harness import fake_vllm
from tests.unit.harness.heard import Heard

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
def heard() -> Heard:
    return Heard(20)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "eos_token_id": 7}))
    return folder


@pytest.fixture
def load(backend: Any, heard: Heard, checkpoint: Path) -> Iterator[Load]:
    made = []
    with ExitStack() as stack:

        def load(**changed: Any) -> Any:
            plan = {
                "model": None,
                "source": checkpoint,
                "scenario": "Server",
                "sampling": Sampling(max_new_tokens=TOKENS),
                "streaming": True,
                "logged": True,
                "threads": 0,
                "precision": "fp32",
                "options": {},
                "first": heard.first,
                "completed": heard.result,
                "failed": heard.result,
                **changed,
            }
            engine = backend.load(GenerationPlan(**plan))  # type: ignore[arg-type]
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
def test_answers_are_the_tokens_that_the_engine_gave(streaming: bool, load: Load, heard: Heard) -> None:
    engine = load(streaming=streaming)
    for row in range(len(PROMPTS)):
        engine.submit(100 + row, row)
    assert heard.wait(len(PROMPTS)) == {100 + row: expected(row) for row in range(len(PROMPTS))}
    firsts = {100 + row: expected(row)[:1] for row in range(len(PROMPTS))}
    assert heard.firsts == (firsts if streaming else {})


@pytest.mark.parametrize("streaming", [True, False])
def test_nothing_is_computed_behind_the_stop_sequence_of_an_answer(streaming: bool, load: Load, heard: Heard) -> None:
    stops = (StopSequence("one", (31, 32)), StopSequence("two", (43,)))
    engine = load(streaming=streaming, sampling=Sampling(max_new_tokens=TOKENS, stop_sequences=stops))
    engine.place(PROMPTS, [0, 0, 1, 2, 1, 0])
    for row in range(len(PROMPTS)):
        engine.submit(row, row)
    wanted = {row: expected(row) for row in range(len(PROMPTS))} | {2: [30, 31, 32]}
    assert heard.wait(len(PROMPTS)) == wanted
    made = fake_vllm.Engine.made
    assert made.begun == len(PROMPTS)
    assert made.ended == len(PROMPTS) - 2  # the last token of row 3 ends it, and the engine was not left to say so


def test_nothing_is_shared_between_queries_and_nothing_looked_up_unless_declared(load: Load, checkpoint: Path) -> None:
    load()
    found = arguments()
    assert found["model"] == str(checkpoint)
    assert (found["enable_prefix_caching"], found["load_format"], found["dtype"]) == (False, "auto", "float32")
    assert not {"max_num_seqs", "quantization", "gpu_memory_utilization"} & found.keys()
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert os.environ["VLLM_CPU_KVCACHE_SPACE"] == "1"


@pytest.mark.parametrize(("scenario", "usage"), [("Offline", "LLM"), ("Server", "server"), ("Interactive", "server")])
def test_batches_are_bounded_as_vllm_does_it_for_such_a_use(scenario: str, usage: str, load: Load) -> None:
    load(scenario=scenario)
    assert fake_vllm.Engine.made.usage == usage


def test_options_of_the_spec_are_told_under_the_names_of_vllm(load: Load) -> None:
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


@pytest.mark.parametrize(
    ("precision", "quantization", "own", "said"),
    [
        ("bf16", "fp8", {}, "engine.precision is bf16, and weights are quantized by engine.options.quantization: fp8"),
        (
            "bf16",
            "",
            {"quant_method": "awq"},
            "engine.precision is bf16, and weights are quantized by the checkpoint's",
        ),
        ("fp8", "", {}, "engine.precision is fp8, and nothing quantizes the weights"),
    ],
)
def test_quantization_is_declared(
    precision: str, quantization: str, own: dict[str, str], said: str, load: Load, checkpoint: Path
) -> None:
    (checkpoint / "config.json").write_text(json.dumps({"quantization_config": own}))
    with pytest.raises(HarnessError) as caught:
        load(precision=precision, options={"quantization": quantization})
    assert caught.value.problem.startswith(said)
    assert caught.value.problem_class == "input"


def test_quantized_checkpoint_is_taken_as_it_is(load: Load, checkpoint: Path) -> None:
    (checkpoint / "config.json").write_text(json.dumps({"quantization_config": {"quant_method": "fp8"}}))
    load(precision="fp8")
    assert arguments()["dtype"] == "auto"
    assert "quantization" not in arguments()


@pytest.mark.parametrize(
    ("generation", "stop", "ends"),
    [({}, (), [7]), ({"eos_token_id": [3, 9]}, (), [3, 9]), ({"eos_token_id": 4}, (), [4]), ({}, (1, 2), [1, 2])],
)
def test_tokens_that_end_an_answer_are_told_with_each_prompt(
    generation: dict[str, Any], stop: tuple[int, ...], ends: list[int], load: Load, checkpoint: Path
) -> None:
    from harness.backends.vllm.arguments import find_checkpoint
    from harness.backends.vllm.engine import make_parameters

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


def test_beams_are_refused(load: Load) -> None:
    with pytest.raises(HarnessError, match="the best of 4 beams"):
        load(sampling=Sampling(beams=4))


def test_folder_without_a_checkpoint_is_refused(load: Load, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"has no config\.json"):
        load(source=tmp_path)
    with pytest.raises(HarnessError, match="not an object of vLLM's engine arguments"):
        load(options={"extra": "[1]"})


def test_engine_that_does_not_start_is_a_failure_with_its_cause(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_vllm.Engine, "mischief", "load")
    with pytest.raises(HarnessError, match="vLLM cannot load checkpoint: Engine core initialization failed"):
        load()


@pytest.mark.parametrize(
    ("mischief", "said"),
    [
        ("dies", "vLLM failed: RuntimeError: EngineCore encountered an issue"),
        ("aborts", "vLLM gave up a prompt (abort)"),
    ],
)
def test_first_failure_ends_all_that_is_under_way(
    mischief: str, said: str, load: Load, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake_vllm.Engine, "mischief", mischief)
    engine = load()
    engine.place([np.array([67]), np.array([66]), np.array([1])])
    for identity in range(2):
        engine.submit(identity, identity)
    assert heard.failure(2).problem == said
    assert fake_vllm.Engine.made.cancelled == 1
    engine.submit(2, 2)
    assert heard.failure(3).problem == said


def test_prompt_that_comes_while_the_engine_fails_is_answered(
    load: Load, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake_vllm.Engine, "mischief", "dies late")
    engine = load(first=lambda *_: engine.submit(1, 1))
    engine.place([np.array([66]), np.array([1])])
    engine.submit(0, 0)
    assert "EngineCore encountered an issue" in heard.failure(2).problem


def test_facts_name_the_library(backend: Any, tmp_path: Path) -> None:
    (tmp_path / "_C.abi3.so").write_bytes(b"kernels")
    facts = backend.facts()
    assert {fact.role for fact in facts.values()} == {"evidence"}
    assert facts["backend.version"].value
    assert facts["backend.digest"].value != ""

"""A run of a backend that generates tokens: what drives it in place of batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any, cast

from harness.backends import load_backend
from harness.benchmarks import BenchmarkCode, TokenBenchmark
from harness.catalog import CpuRunOptions, EngineSettings, TokenOptions, list_options
from harness.contract import BACKENDS, Counter, RunRequest
from harness.errors import HarnessError, require
from harness.machine.facts import list_taken
from harness.run.loadgen import Prepared, Responder
from harness.run.qsl import Arrays, SampleLibrary
from harness.run.sut import Guard, LoadedSut
from harness.run.tokens import (
    GenerationPlan,
    Generator,
    Sampling,
    StopSequence,
    TokenBackend,
    TokenCompleter,
    TokenRelay,
    TokenSut,
    WarmUp,
    name_samples,
    place_prompts,
)

_WARM_UP = 4  # prompts


def load_generator(
    request: RunRequest, benchmark: BenchmarkCode, arrays: Arrays, prepared: Prepared, counter: Counter, guard: Guard
) -> LoadedSut:
    """Load, warm up, and hand over what LoadGen calls."""
    if not isinstance(benchmark, TokenBenchmark):
        fix = "choose another backend, or another benchmark"
        raise HarnessError(f"{benchmark.name} has no tokens for {request.backend} to generate", "input", fix)
    if len(taken := list_taken()) > 1:
        fix = "start a server on each slice as `harness.service`, asked by the backend openai; or declare one slice"
        raise HarnessError(f"{request.backend} computes on one slice of a GPU, not on {len(taken)}", "input", fix)
    asked = name_samples(arrays)
    if asked not in BACKENDS[request.backend].takes:
        able = ", ".join(name for name, facts in BACKENDS.items() if asked in facts.takes)
        problem = f"{request.backend} takes no {asked}, which {benchmark.name} has"
        raise HarnessError(problem, "input", f"set engine.backend: {able}, or declare a harness command")
    counts_tokens = bool(prepared.read("use_token_latencies"))
    streaming = counts_tokens and request.scenario != "Offline"
    # An answer that is a text is measured as a whole where the round says so, and any by a LoadGen of before 4.1.
    if not (counts_tokens or prepared.read("infer_token_latencies", unseen=True) or benchmark.write_text):
        raise HarnessError(
            f"LoadGen does not count tokens for the model {request.model_key}",
            "input",
            "name a benchmark of the round that generates tokens as `as:`",
        )
    sampling = choose_sampling(benchmark.generation, request.generation, request.settings)
    relay, known = TokenRelay(), {**BACKENDS[request.backend].engine, **BACKENDS[request.backend].run}
    plan = GenerationPlan(
        model=require(Path(request.inputs["model"]), "the model") if "model" in request.inputs else None,
        source=Path(request.sources["model"]) if "model" in request.sources else None,
        scenario=request.scenario,
        sampling=sampling,
        streaming=streaming,
        logged=prepared.logs_responses,
        threads=CpuRunOptions(request.settings).threads,
        precision=EngineSettings(request.settings).precision,
        options={name: value for name, value in request.settings.items() if name in known},
        first=relay.first,
        completed=relay.completed,
        failed=relay.failed,
        samples=asked,
        service_url=request.service_url,
        service_log=request.service_log,
    )
    backend = cast(TokenBackend, load_backend(request.backend))
    generator = backend.load(plan)
    place = partial(place_prompts, generator)
    library = SampleLibrary(arrays, place, guard.record, performance_count=request.performance_sample_count)
    counter.stage("warming up")
    _warm_up(generator, arrays, relay)
    completer = TokenCompleter(
        Responder(with_data=prepared.logs_responses, tokens=True),
        sampling,
        counter,
        guard,
        dtype=benchmark.response_dtype,
        streaming=streaming,
        logged=prepared.logs_responses,
        write_text=benchmark.write_text,
    )
    relay.target = completer
    return LoadedSut(
        sut=TokenSut(generator, library, completer, guard),
        library=library,
        notes=generator.notes,
        values=lambda: {
            "samples_completed": completer.counts.samples,
            "tokens": asdict(completer.counts),
            "sampling": asdict(sampling),
        },
        samples=lambda: completer.counts.samples,
        close=generator.close,
        evidence=generator.evidence,
    )


def choose_sampling(own: Mapping[str, Any], ruled: Mapping[str, Any], settings: Mapping[str, Any]) -> Sampling:
    """``own``: the benchmark's; over it what the round rules, and over that what the spec says of the run."""
    said = {name: int(settings[name]) for name in list_options(TokenOptions) if settings.get(name)}
    values = {**own, **ruled, **said}
    known = {field.name for field in fields(Sampling)}
    if unknown := sorted(set(values) - known):
        raise HarnessError(
            f"{unknown[0]} does not say how tokens are chosen", "input", f"use {', '.join(sorted(known))}"
        )
    if "stop" in values:
        values["stop"] = tuple(values["stop"])
    if "stop_sequences" in values:
        values["stop_sequences"] = tuple(StopSequence(text, tuple(tokens)) for text, tokens in values["stop_sequences"])
    return Sampling(**values)


def _warm_up(generator: Generator, arrays: Arrays, relay: TokenRelay) -> None:
    """The first prompts, before any clock runs: connections are made, kernels compiled."""
    count = min(_WARM_UP, len(next(iter(arrays.values()))))
    place_prompts(generator, {name: [rows[row] for row in range(count)] for name, rows in arrays.items()})
    warm = relay.target
    assert isinstance(warm, WarmUp)
    for row in range(count):
        generator.submit(row, row)
    warm.wait(count)

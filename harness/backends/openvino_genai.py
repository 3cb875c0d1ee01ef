"""OpenVINO GenAI in this process: continuous batching over a paged cache, on Intel CPUs and GPUs.

One thread admits prompts and steps the pipeline: each step computes the next token of every answer in progress, and all
or part of new prompts. Speech models (Whisper) transcribe in parallel pipelines.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
import openvino as ov
import openvino_genai as genai

from harness.backends import collect_library_facts, find_backend_version
from harness.catalog import OpenvinoGenaiRunOptions
from harness.contract import Fact
from harness.errors import HarnessError
from harness.run.tokens import GenerationPlan, Sampling, Spoken, StopSequence

MODEL, ENCODER = "openvino_model.xml", "openvino_encoder_model.xml"  # for text, and for speech
_PRECISIONS = {"fp32": "f32", "bf16": "bf16", "fp16": "f16"}
_ALL = 2**31 - 1  # tokens


def facts() -> dict[str, Fact]:
    folder = Path(genai.__file__).parent
    more = {"openvino.version": find_backend_version("openvino")}
    return collect_library_facts(find_backend_version("openvino-genai"), folder, folder.glob("*.so*"), **more)


def load(plan: GenerationPlan) -> Pipeline | Transcriber:
    """Load the model. Raises HarnessError if there is none in OpenVINO's format, or it cannot be compiled."""
    folder = find_model(plan)
    return Pipeline(plan, folder) if (folder / MODEL).is_file() else Transcriber(plan, folder)


def find_model(plan: GenerationPlan) -> Path:
    """Find the model's folder: the one built by the benchmark, or else the path from the spec."""
    for folder in (plan.model, plan.source):
        if folder is not None and any((folder / name).is_file() for name in (MODEL, ENCODER)):
            return folder
    fix = "export the checkpoint to OpenVINO's format (optimum-cli export openvino), and set model.path to that folder"
    raise HarnessError(f"{plan.source or plan.model} has no {MODEL}", "missing", fix)


@dataclass(slots=True)
class _Request:
    """A prompt in progress. ``due``: the step after which its state is checked. ``tokens``: the tokens read so far."""

    identity: int
    handle: Any
    due: int
    stop: StopSequence | None = None
    tokens: list[int] = field(default_factory=list)


class Pipeline:
    """A generator. Methods below ``_serve`` run on its own thread."""

    def __init__(self, plan: GenerationPlan, folder: Path) -> None:
        self._plan = plan
        options = OpenvinoGenaiRunOptions(plan.options)
        scheduler = genai.SchedulerConfig()
        scheduler.cache_size = options.cache_gib
        scheduler.max_num_batched_tokens = options.batched_tokens
        scheduler.max_num_seqs = options.sequences
        scheduler.dynamic_split_fuse = options.split_prompts
        device = options.device
        with explain_load_errors(folder):
            self._pipeline = genai.ContinuousBatchingPipeline(
                str(folder), scheduler, device, describe_properties(device, plan)
            )
        self._config = make_config(self._pipeline.get_config(), plan.sampling)
        self._prompts: list[ov.Tensor] = []
        self._stops: Sequence[int] = ()
        self._work: SimpleQueue[tuple[int, int] | None] = SimpleQueue()
        self._active: list[_Request] = []
        self._most = scheduler.max_num_seqs
        self._number = self._steps = 0
        self.notes: Mapping[str, Any] = {
            "device": device,
            "threads": plan.threads,
            "cache_gib": scheduler.cache_size,
            "batched_tokens": scheduler.max_num_batched_tokens,
            "sequences": scheduler.max_num_seqs,
        }
        self.evidence: Mapping[str, Any] = {}
        self._thread = threading.Thread(target=self._serve, name="openvino-genai", daemon=True)
        self._thread.start()

    def place(self, prompts: Sequence[np.ndarray], stops: Sequence[int] = ()) -> None:
        self._stops = stops
        self._prompts = [ov.Tensor(np.array(prompt, np.int64)[None]) for prompt in prompts]

    def submit(self, identity: int, row: int) -> None:
        self._work.put((identity, row))

    def close(self) -> None:
        self._work.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while self._admit():
            try:
                self._pipeline.step()
                self._steps += 1
                self._active = [
                    request for request in self._active if self._steps < request.due or not self._read(request)
                ]
            except Exception as error:  # any error of the library fails all prompts in progress
                for request in self._active:
                    self._plan.failed(request.identity, error)
                self._active = []

    def _admit(self) -> bool:
        """Take waiting prompts, up to the number that the pipeline computes at once; sleep if there are none. Return
        False at the end.

        A step adds at most one token to an answer, so no answer can end in fewer steps than its minimum length.
        Checking all answers after each step took a tenth of a small model's time.
        """
        try:
            while len(self._active) < self._most:
                item = self._work.get(block=not self._active)
                if item is None:
                    return False
                identity, row = item
                if self._plan.sampling.seed < 0:
                    self._config.rng_seed = self._number
                try:
                    handle = self._pipeline.add_request(self._number, self._prompts[row], self._config)
                except Exception as error:
                    self._plan.failed(identity, error)
                    continue
                self._number += 1
                patience = 1 if self._plan.streaming else self._plan.sampling.min_new_tokens
                stop = self._plan.sampling.find_stop_sequence(self._stops[row]) if self._stops else None
                self._active.append(_Request(identity, handle, self._steps + patience, stop))
        except Empty:
            pass
        return True

    def _read(self, request: _Request) -> bool:
        """Report the first token if it is expected, and the answer; return True once that has ended."""
        status = request.handle.get_status()
        if status == genai.GenerationStatus.RUNNING:
            if self._plan.streaming and not request.tokens and request.handle.can_read():
                (output,) = request.handle.read().values()
                request.tokens += output.generated_ids
                self._plan.first(request.identity, request.tokens[:1])
                request.due = self._steps + self._plan.sampling.min_new_tokens - len(request.tokens)
            return False
        if request.handle.can_read():  # one call returns the rest; the likeliest of several beams
            best = max(request.handle.read_all(), key=lambda output: output.score)
            request.tokens += best.generated_ids
        if status == genai.GenerationStatus.FINISHED:
            found = request.tokens
            self._plan.completed(request.identity, request.stop.cut(found) if request.stop else found)
        else:
            problem = f"the pipeline aborted a prompt ({status.name})"
            fix = "raise run.options.cache_gib: the cache is too small"
            self._plan.failed(request.identity, HarnessError(problem, "resources", fix))
        return True


class Transcriber:
    """A generator of English transcripts, with a thread and a pipeline for each utterance in progress, since a speech
    pipeline processes one at a time."""

    def __init__(self, plan: GenerationPlan, folder: Path) -> None:
        self._plan = plan
        options = OpenvinoGenaiRunOptions(plan.options)
        device, count = options.device, max(1, options.pipelines)
        properties = describe_properties(device, plan)
        with explain_load_errors(folder):
            pipelines = [genai.WhisperPipeline(str(folder), device, **properties) for _ in range(count)]
        self._config = make_speech_config(pipelines[0].get_generation_config(), plan.sampling)
        self._sounds: Sequence[np.ndarray] = []
        self._work: SimpleQueue[tuple[int, int] | None] = SimpleQueue()
        self.notes: Mapping[str, Any] = {"device": device, "threads": plan.threads, "pipelines": count}
        self.evidence: Mapping[str, Any] = {}
        self._threads = [
            threading.Thread(target=self._serve, args=(pipeline,), name="openvino-genai", daemon=True)
            for pipeline in pipelines
        ]
        for thread in self._threads:
            thread.start()

    def place(self, prompts: Sequence[np.ndarray], _stops: Sequence[int] = ()) -> None:
        self._sounds = prompts

    def submit(self, identity: int, row: int) -> None:
        self._work.put((identity, row))

    def close(self) -> None:
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()

    def _serve(self, pipeline: Any) -> None:
        while (item := self._work.get()) is not None:
            identity, row = item
            try:
                result = pipeline.generate(self._sounds[row], self._config)
                answer = Spoken(result.texts[0], int(result.perf_metrics.get_num_generated_tokens()))
            except Exception as error:
                self._plan.failed(identity, error)
            else:
                self._plan.completed(identity, answer)


def make_speech_config(config: Any, sampling: Sampling) -> Any:
    """Configure as in MLPerf's reference: transcription in English, without timestamps."""
    config.max_new_tokens, config.min_new_tokens = sampling.max_new_tokens, sampling.min_new_tokens
    config.do_sample, config.return_timestamps = False, False
    if config.is_multilingual:
        config.language, config.task = "<|en|>", "transcribe"
    return config


@contextmanager
def explain_load_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        fix = "export the checkpoint again with the installed version of OpenVINO"
        raise HarnessError(f"OpenVINO GenAI cannot load {folder.name}: {error}", "backend", fix) from error


def describe_properties(device: str, plan: GenerationPlan) -> dict[str, Any]:
    """Describe properties. In fp32 nothing is rounded, not even the cache; otherwise the cache has the device's
    defaults."""
    found: dict[str, Any] = {"INFERENCE_PRECISION_HINT": _PRECISIONS[plan.precision]}
    if plan.precision == "fp32":
        found["KV_CACHE_PRECISION"] = "f32"
    if plan.threads and device == "CPU":
        found["INFERENCE_NUM_THREADS"] = plan.threads
    return found


def make_config(config: Any, sampling: Sampling) -> Any:
    config.max_new_tokens, config.min_new_tokens = sampling.max_new_tokens or _ALL, sampling.min_new_tokens
    config.do_sample = sampling.temperature > 0
    if config.do_sample:
        config.temperature, config.top_p = sampling.temperature, sampling.top_p
        config.top_k = sampling.top_k if sampling.top_k > 0 else _ALL
        config.rng_seed = max(0, sampling.seed)
    if sampling.beams > 1:
        config.num_beams, config.num_return_sequences = sampling.beams, 1
        config.stop_criteria = genai.StopCriteria.EARLY
    if sampling.stop:
        config.eos_token_id, config.stop_token_ids = sampling.stop[0], set(sampling.stop)
    return config

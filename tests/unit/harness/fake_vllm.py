"""What the vLLM backend asks of its library, without the library.

The answer to a prompt that begins with token t is t, t + 1, … To a sound it is a text that reports how long it is.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

VERSION = "9.9.9"


class Renderer:
    """Transcribes sounds, in processes of their own. A waveform that begins with 0.25 is never transcribed, and
    one that begins with 0.5 is a fault."""

    def render_cmpl(self, prompts: list[Any]) -> list[Any]:
        (prompt,) = prompts
        assert prompt["decoder_prompt"] is None
        asked = prompt["encoder_prompt"]
        waveform, rate = asked["multi_modal_data"]["audio"]
        if waveform[0] == 0.25:
            time.sleep(60)
        if waveform[0] == 0.5:
            raise ValueError("no such mel")
        received = len(waveform) / rate
        decoder = {"mm_hashes": {"audio": ["renderer0-mm-1-audio-0"]}, "prompt_token_ids": asked["prompt_token_ids"]}
        return [{"type": "enc_dec", "received": received, "by": os.getpid(), "decoder_prompt": decoder}]


class Engine:
    """``mischief``: what goes wrong with prompts that begin with 66; ``device``: the type that it computes on;
    ``made``: the last engine."""

    mischief = ""
    device = "cpu"
    made: Engine

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        if Engine.mischief == "load":
            raise RuntimeError("Engine core initialization failed")
        self.arguments, self.closed, self.cancelled, self.usage = dict(arguments), False, 0, ""
        self.begun = self.ended = 0
        scheduler = SimpleNamespace(max_num_seqs=arguments.get("max_num_seqs", 256), max_num_batched_tokens=2048)
        parallel = {name: arguments.get(name, 1) for name in ("tensor_parallel_size", "data_parallel_size")}
        self.vllm_config = SimpleNamespace(
            scheduler_config=scheduler,
            model_config=SimpleNamespace(dtype="float32"),
            parallel_config=SimpleNamespace(**parallel),
            device_config=SimpleNamespace(device_type=self.device),
        )
        self.names: list[str] = []
        self.listeners: set[int] = set()
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
        if "received" in prompt:
            decoder = prompt["decoder_prompt"]
            self.listeners.add(prompt["by"])
            self.names += decoder["mm_hashes"]["audio"]
            text = f" {prompt['received']} s after {decoder['prompt_token_ids']}" if parameters.detokenize else ""
            prompt = decoder
        start = prompt["prompt_token_ids"][0]
        if start == 66 and Engine.mischief == "dies":
            raise RuntimeError("EngineCore encountered an issue")
        try:
            while start == 67:
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        self.begun += 1
        tokens = [start + place for place in range(parameters.max_tokens)]
        whole = parameters.output_kind == "final only"
        pieces = [tokens] if whole else [[], tokens[:2], tokens[2:3], tokens[3:]]
        for place, piece in enumerate(pieces):
            await asyncio.sleep(0)
            last = place == len(pieces) - 1
            if last and start == 66 and Engine.mischief == "dies late":
                raise RuntimeError("EngineCore encountered an issue")
            reason = ("abort" if start == 66 and Engine.mischief == "aborts" else "length") if last else None
            yield SimpleNamespace(
                outputs=[SimpleNamespace(token_ids=piece, text=text, finish_reason=reason)], finished=last
            )
        self.ended += 1

    def shutdown(self) -> None:
        self.closed = True


def make_modules(folder: str) -> dict[str, ModuleType]:
    """By name, for ``sys.modules``."""
    made = {name: ModuleType(name) for name in _PARTS}
    for name, parts in _PARTS.items():
        for key, value in parts.items():
            setattr(made[name], key, value)
    made["vllm"].__file__ = f"{folder}/__init__.py"
    return made


def write_library(folder: Path) -> None:
    """For processes that find their libraries in ``folder``: enough to transcribe with."""
    for name in ("vllm", "vllm/engine", "vllm/usage", "vllm/v1", "vllm/v1/engine"):
        (folder / name).mkdir()
    for name, text in _WRITTEN.items():
        (folder / name).write_text(text)


_FAKE = "from tests.unit.harness import fake_vllm as fake\n"
_WRITTEN = {
    "torch.py": "class Tensor:\n    pass\n",
    "vllm/__init__.py": f"__version__ = {VERSION!r}\n",
    "vllm/sampling_params.py": f"{_FAKE}RequestOutputKind = SamplingParams = None\n",
    "vllm/usage/usage_lib.py": "UsageContext = None\n",
    "vllm/v1/engine/async_llm.py": "AsyncLLM = None\n",
    "vllm/engine/arg_utils.py": "class AsyncEngineArgs(dict):\n    def create_engine_config(self): return self\n",
    "vllm/renderers.py": f"{_FAKE}def renderer_from_config(said):\n    return fake.Renderer()\n",
}
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
